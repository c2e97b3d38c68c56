"""The queue's interface for its callers."""
