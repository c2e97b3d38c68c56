"""The HTTP API: the same lines, limits and promises for programs."""
