"""What operators and Prometheus are shown: now, the last hours, people, metrics."""
