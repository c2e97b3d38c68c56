"""Callers and what they may do: people, rights, invites and the audit log."""
