"""Fetches pictures from addresses in requests, where the operator allows it, past a guard."""
