"""`usher init`: from what runs here to a configuration, with as few questions as possible."""
