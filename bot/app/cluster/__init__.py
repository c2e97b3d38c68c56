"""Several processes: posts and their leases, and the queue over a connection."""
