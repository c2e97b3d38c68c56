"""OpenAI's formats: request records, and writers of answers. No I/O."""
