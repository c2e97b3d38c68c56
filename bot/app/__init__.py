"""The running bot: puts the parts together, starts, reloads and stops them."""
