"""Finds links, prompts, numbers and files in workflows that other people exported. Pure."""
