"""The configuration: read, checked as a whole, and made into plain values."""
