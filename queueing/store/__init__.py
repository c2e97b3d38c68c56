"""The database: opening, reading, writing and maintaining it."""
