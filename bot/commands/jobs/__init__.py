"""Commands about the caller's jobs."""
