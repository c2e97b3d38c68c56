"""What is available, and the caller's settings, keys and data."""
