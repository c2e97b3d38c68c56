"""What every kind of backend uses."""
