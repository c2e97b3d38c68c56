"""Commands that create."""
