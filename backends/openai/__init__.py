"""Servers of text and speech with OpenAI's API."""
