"""A stand-in for an inference server."""
