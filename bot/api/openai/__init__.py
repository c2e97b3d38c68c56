"""OpenAI's shapes: records of requests, writers of answers; no I/O."""
