"""The engine for one file."""
