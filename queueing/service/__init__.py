"""What the outside may ask of the queue: accept, cancel, look, administer."""
