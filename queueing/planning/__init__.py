"""One scheduling decision: from a snapshot to a plan; pure."""
