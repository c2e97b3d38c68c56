"""Oddities of other people's servers, files, chats and machines, as data: each is a file."""
