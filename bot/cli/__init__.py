"""The command line `usher`."""
