"""Commands that create something."""
