"""The configuration: read, checked as a whole, turned into plain values."""
