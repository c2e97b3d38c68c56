"""PostgreSQL: the sessions, their one writer, the schema, and how all of it fails."""
