"""The native API's parts."""
