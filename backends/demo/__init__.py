"""A stand-in for a server."""
