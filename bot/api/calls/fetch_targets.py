"""Decides which URLs may be fetched: https, a full host name, a public IP address. Pure.

Without these rules, a caller could reach hosts that only this machine can reach: routers, metadata
services and model servers.
"""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from yarl import URL

LONGEST = 8192  # characters of a URL
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f-\x9f\\]")
_NAME = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]")
"""A host name with a domain. Matches neither IP addresses in any notation nor local names."""

_UNICAST = IPv6Network("2000::/3")
"""All global IPv6 addresses. Except for 6to4, no address in it embeds an IPv4 address."""
_SPECIAL_V6 = tuple(
    IPv6Network(each) for each in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)
_SPECIAL_V4 = tuple(IPv4Network(each) for each in ("192.0.0.0/24", "192.88.99.0/24"))


class NotFetched(Exception):
    """Raised for a URL that may not be fetched or has no usable content. The text says why."""


def target_of(text: str) -> URL:
    """Parse a URL that may be resolved and fetched. Raises `NotFetched`."""
    if len(text) > LONGEST or _FORBIDDEN.search(text):
        raise NotFetched("is not a valid URL")
    try:
        url = URL(text, encoded=text.isascii())  # signed URLs are only valid exactly as written
        port = url.port
    except ValueError:
        raise NotFetched("is not a valid URL") from None
    if url.scheme != "https":
        raise NotFetched("must be a URL that begins with https://")
    if url.raw_user is not None or url.raw_password is not None:
        raise NotFetched("must be a URL without a user name or password")
    if port != 443:
        raise NotFetched("must be a URL without a port")
    host = (url.raw_host or "").lower().removesuffix(".")
    if not _NAME.fullmatch(host) or len(host) > 253:
        raise NotFetched("must be a URL with a full host name")
    return url.with_host(host).with_fragment(None)


def is_public(text: str) -> bool:
    """Return whether an IP address belongs to a single host on the public internet."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv6Address):
        return _is_public_v6(address)
    return _is_public_v4(address)


def _is_public_v4(address: IPv4Address) -> bool:
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    return not any(address in network for network in _SPECIAL_V4)


def _is_public_v6(address: IPv6Address) -> bool:
    if address.scope_id is not None or address not in _UNICAST:
        return False
    return not any(address in network for network in _SPECIAL_V6)
