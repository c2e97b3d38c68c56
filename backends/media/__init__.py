"""Files that models make and people send: decoded within bounds, cleaned, made to fit."""
