"""Metrics: what is counted and measured, and the endpoint at which Prometheus reads it."""
