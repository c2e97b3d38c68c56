"""The queue as it is reached from other processes: calls, events and pushed copies over one connection."""
