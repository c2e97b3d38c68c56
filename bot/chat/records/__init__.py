"""What the bot remembers of messages, in the database of the queue."""
