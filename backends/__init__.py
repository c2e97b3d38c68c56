"""Adapters that give every kind of inference server a common interface."""
