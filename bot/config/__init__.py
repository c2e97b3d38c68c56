"""Reads the configuration, checks it as a whole, and turns it into plain values."""
