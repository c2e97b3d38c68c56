"""OpenAI's API as its clients use it: records, what they mean here, and answers in its shapes."""
