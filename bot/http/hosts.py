"""Host headers: which names a server answers to. Pure."""

import re
from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:\d{1,5})?", re.ASCII)


def host_allowed(header: str, *, loopback: bool, names: Collection[str]) -> bool:
    """Return whether a request's Host header names this server.

    A hostile site can point its own name at this address (DNS rebinding) and would then be
    same-origin; it cannot do that with an address, so addresses are safe when listening on one.
    """
    name = _name_of(header)
    if name is None:
        return False
    if name == "localhost" or name in names:
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or not loopback


def _name_of(header: str) -> str | None:
    """Return the name in a Host header; None for an invalid one, such as one with user information."""
    if not _HOST.fullmatch(header):
        return None
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None
