"""ComfyUI."""
