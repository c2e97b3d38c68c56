"""What the bot remembers of messages, in the queue's database."""
