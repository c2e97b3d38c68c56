"""The configuration: read, checked as a whole, and turned into plain values."""
