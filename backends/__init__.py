"""Inference servers: one folder a kind. Know no chat and no store."""
