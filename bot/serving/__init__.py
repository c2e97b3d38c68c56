"""Serves HTTP to strangers: connections, addresses, host names and guesses. Knows no chat."""
