"""Plain values, and the ports that the queue defines."""
