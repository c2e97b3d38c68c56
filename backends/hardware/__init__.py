"""The GPUs and machines themselves."""
