"""Image servers."""
