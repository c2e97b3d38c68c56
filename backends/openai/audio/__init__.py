"""Speech on servers with OpenAI's API: texts read aloud, and recordings written down."""
