"""Everything about conversations that holds on every chat platform."""
