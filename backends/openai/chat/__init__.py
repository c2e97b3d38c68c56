"""Chats: requests to text models, and their answers as they arrive."""
