"""Reads PDFs and office files."""
