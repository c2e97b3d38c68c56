"""Access to GPUs and hosts outside the inference servers."""
