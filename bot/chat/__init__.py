"""What holds for conversations on every chat platform."""
