"""State, history, usage and metrics, for operators and Prometheus."""
