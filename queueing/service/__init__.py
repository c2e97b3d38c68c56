"""What callers may ask of the queue: accept, cancel, look, administer."""
