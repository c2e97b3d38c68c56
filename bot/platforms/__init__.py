"""Chat platforms, one folder each. They do not depend on each other, on commands or on delivery."""
