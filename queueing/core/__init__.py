"""The vocabulary of the queue: plain values and the ports it owns; imports no other package."""
