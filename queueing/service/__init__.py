"""What callers may ask of the queue."""
