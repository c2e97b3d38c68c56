"""The routes of the page: its files, who asks, and what its views show."""
