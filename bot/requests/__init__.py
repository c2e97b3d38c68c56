"""Turns a person's request into an accepted job or a refusal. Knows no platform and no HTTP."""
