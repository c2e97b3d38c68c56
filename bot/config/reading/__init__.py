"""Reads a configuration's file, its values and what the environment adds."""
