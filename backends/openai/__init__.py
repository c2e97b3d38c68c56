"""Text servers with an OpenAI-compatible API, LM Studio among them."""
