"""Opens and maintains a database."""
