"""Several processes of one installation: who does what, and the queue as the others reach it."""
