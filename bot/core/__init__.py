"""The vocabulary of the bot: plain values and ports; imports nothing else of it."""
