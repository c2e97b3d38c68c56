"""What an address to listen on means. Pure."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Return whether an address or name to listen on is reachable from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
