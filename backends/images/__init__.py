"""The backend for image servers."""
