"""A process of its own that reads untrusted films, sounds and documents, confined and bounded."""
