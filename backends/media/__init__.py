"""Processing of files that models create and people send."""
