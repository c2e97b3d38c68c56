"""`usher demo`: the real bot on stand-in servers."""
