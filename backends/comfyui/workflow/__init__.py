"""Templates of ComfyUI's workflows; pure."""
