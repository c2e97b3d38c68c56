"""Graphs of nodes: what they contain, how they change, what servers say of their types. Pure."""
