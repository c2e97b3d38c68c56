"""The running bot: assembles the parts, and starts, reloads and stops them."""
