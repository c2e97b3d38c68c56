"""What handlers of commands share."""
