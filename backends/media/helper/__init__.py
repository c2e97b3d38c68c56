"""The confined process that reads untrusted files."""
