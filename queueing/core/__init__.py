"""Plain values, and the ports that the queue owns."""
