"""Commands for admins."""
