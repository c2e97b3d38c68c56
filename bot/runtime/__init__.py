"""The running bot: the composition of its parts and its background tasks."""
