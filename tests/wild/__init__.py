"""Oddities of other people's servers, files, chats and machines, as data: a new one is a file."""
