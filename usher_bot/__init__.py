"""The only package name that Usher installs.

The wheel contains `bot` and the others inside it.
"""
