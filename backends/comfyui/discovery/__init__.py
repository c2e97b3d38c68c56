"""What the files of a ComfyUI server are, told by names, sizes and metadata. Pure."""
