"""The running bot: the composition of its parts and what goes on beside them."""
