"""Graphs of nodes: their contents, their changes, and the servers' node types. Pure."""
