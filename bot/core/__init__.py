"""The bot's shared values and ports. Imports nothing from the rest of the bot."""
