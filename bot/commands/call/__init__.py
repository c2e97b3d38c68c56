"""Code that command handlers share."""
