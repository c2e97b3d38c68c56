"""Code shared by all kinds of servers."""
