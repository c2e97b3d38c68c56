"""What both engines share."""
