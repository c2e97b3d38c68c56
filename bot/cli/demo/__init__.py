"""`usher demo`: the real bot with stand-in servers."""
