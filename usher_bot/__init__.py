"""The one name that Usher is installed under; the wheel carries `bot` and the others inside it."""
