"""Templates of ComfyUI workflows. Pure."""
