"""The web chat and the operator's page."""
