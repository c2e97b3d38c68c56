"""The HTTP API: gives programs the same queues, limits and promises as people."""
