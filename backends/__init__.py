"""Inference servers: one file a kind. Know no chat and no store."""
