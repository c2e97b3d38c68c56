"""Every sentence people read, status and buttons, in each language."""
