"""SQLite below the store: the file, its one writer, its schema, and the few statements of its own."""
