"""OpenAI's API as its clients use it: request records, their meaning here, and responses."""
