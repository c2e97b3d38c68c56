"""Every command; a folder is a heading of `/help`."""
