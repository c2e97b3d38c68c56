"""Chat platforms: one file each."""
