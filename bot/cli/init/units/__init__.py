"""The systemd units that `usher init` fills in."""
