"""Inference servers, one folder per kind. They know no chat and no store."""
