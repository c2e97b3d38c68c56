"""The words of the queue: plain values and the ports it owns; imports nothing else of this project."""
