"""Picture servers."""
