"""`usher init`: finds what runs here and writes a configuration for it."""
