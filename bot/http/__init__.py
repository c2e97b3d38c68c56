"""What every HTTP server of the bot needs; knows no chat and no API."""
