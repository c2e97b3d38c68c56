"""`usher workflow add`: turns an exported workflow into a template."""
