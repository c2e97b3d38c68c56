"""How long work takes and when jobs will be done; pure."""
