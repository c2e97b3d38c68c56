"""Keeps status messages up to date and delivers results within each chat's limits."""
