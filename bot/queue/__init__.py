"""What the bot asks of the queue: Protocols that belong to the bot, in parts that fit their users."""
