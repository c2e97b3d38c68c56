"""Fair order: queues ordered by recent usage per person."""
