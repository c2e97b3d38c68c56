"""A model's Markdown: one reader for all platforms, and its division into messages."""
