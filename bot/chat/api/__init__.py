"""The vocabulary of chats: what platforms deliver and receive, and how they fail."""
