"""One decision: from a snapshot of the world to a plan; pure."""
