"""The documentation site: `docs/` with reference pages that are made from the code."""
