"""The web chat: its server, and the page as static files."""
