"""The vocabulary of chats: what platforms deliver, what they are given, and how they fail."""
