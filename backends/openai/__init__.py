"""Text and speech servers with an OpenAI-compatible API."""
