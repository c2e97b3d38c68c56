"""The native jobs API: requests, events and webhooks."""
