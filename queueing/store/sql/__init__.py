"""Code that both database engines share."""
