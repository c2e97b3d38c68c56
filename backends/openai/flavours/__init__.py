"""The flavours of text and speech servers."""
