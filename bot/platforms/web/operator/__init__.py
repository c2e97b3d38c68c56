"""The operator's page: what admins see of the whole bot, and what they do about it there."""
