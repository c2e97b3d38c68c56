"""Shared code of Usher's HTTP servers. Does not depend on chats or the API."""
