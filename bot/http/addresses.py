"""What an address to listen on means. Pure."""

import re
from ipaddress import ip_address

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_PORT = re.compile(r"[0-9]{1,5}")


def is_loopback(host: str) -> bool:
    """Return whether an address or name to listen on is reachable from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_every_address(host: str) -> bool:
    """Return whether a host means all addresses of a machine, and so none that others can call."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def is_public(host: str) -> bool:
    """Return whether an address is one of the internet's; a name is not looked up."""
    try:
        return ip_address(host).is_global
    except ValueError:
        return False


def host_and_port(text: str) -> tuple[str, int]:
    """Read `host`, `host:port`, `[::1]:port` or `::1`; the port is 0 if none is named.

    Raises `ValueError`.
    """
    if _is_ipv6(text):
        return text, 0
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, "0"
    if host.startswith("[") and host.endswith("]") and _is_ipv6(host[1:-1]):
        host = host[1:-1]
    elif not _HOST.fullmatch(host):
        raise ValueError(f"{text!r} names no host")
    if not _PORT.fullmatch(port) or int(port) > 65_535:
        raise ValueError(f"{port!r} is no port")
    return host, int(port)


def joined(host: str, port: int) -> str:
    """Return an address such as `10.0.0.7:8124` or `[::1]:8124`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_ipv6(text: str) -> bool:
    try:
        return ip_address(text).version == 6
    except ValueError:
        return False
