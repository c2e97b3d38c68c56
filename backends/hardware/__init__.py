"""The cards and machines themselves."""
