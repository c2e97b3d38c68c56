"""What is in which memory, and which host works: state in memory, no I/O."""
