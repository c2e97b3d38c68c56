"""How long things take and when jobs will be done; pure."""
