"""The chat of one person on the page: its messages, its calls and its open tabs."""
