"""What every kind of server needs."""
