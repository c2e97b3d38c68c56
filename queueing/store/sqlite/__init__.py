"""The engine for a database in a SQLite file."""
