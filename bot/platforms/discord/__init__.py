"""The Discord platform."""
