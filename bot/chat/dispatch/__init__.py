"""The one way in: from a call to its command and its answer."""
