"""Files that models make and people send."""
