"""Picture servers: OpenAI's calls for pictures, and the own calls of those that can do more."""
