"""Stores jobs, in SQL that both engines understand."""
