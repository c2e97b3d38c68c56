"""The engine for a PostgreSQL database, and the leases stored in it."""
