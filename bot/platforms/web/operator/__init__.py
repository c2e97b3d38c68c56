"""The operator's page: what it shows, and its routes."""
