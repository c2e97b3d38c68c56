"""The ComfyUI backend."""
