"""What people attach: read, checked and made smaller for models."""
