"""Every text people read, in each language."""
