"""ComfyUI workflow templates: read, checked and filled. Pure."""
