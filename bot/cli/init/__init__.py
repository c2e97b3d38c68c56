"""`usher init`: from what runs here to a configuration."""
