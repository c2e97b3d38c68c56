"""Tests of what an operator is shown."""
