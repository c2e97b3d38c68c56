"""Every command. Each folder is a heading of `/help`."""
