"""A stand-in for an inference server, for trying Usher without one."""
