"""In-memory state of the fleet: which models are loaded where, and which hosts are available."""
