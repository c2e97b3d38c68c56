"""The engine for a server, and the posts kept there."""
