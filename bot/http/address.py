"""Where a request of the page comes from: the peer, or the address that a known proxy forwards.

Pure. Any client can write a forwarding header; only the proxies named in the configuration are
trusted.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_HOME = 64  # bits of an IPv6 address that a household shares: all of it is one visitor


class Clients:
    """Identifies visitors. `proxies` are addresses or networks such as "10.0.0.0/8"."""

    def __init__(self, proxies: Iterable[str] = ()) -> None:
        self._proxies = tuple(ip_network(proxy) for proxy in proxies)

    def is_proxy(self, peer: str) -> bool:
        """Return whether a peer is one of the proxies."""
        address = _read(peer)
        return address is not None and any(address in proxy for proxy in self._proxies)

    def of(self, peer: str, forwarded: Sequence[str]) -> str:
        """Return a request's client; `forwarded` are the values of X-Forwarded-For, in order.

        Each proxy appends the address it was reached from, so the last one that is no proxy counts:
        the visitor sent the values before it.
        """
        if self.is_proxy(peer):
            hops = [hop.strip() for value in forwarded for hop in value.split(",")]
            for hop in reversed(hops):
                if _read(hop) is None:
                    break
                if not self.is_proxy(hop):
                    return home(hop)
        return home(peer)


def home(peer: str) -> str:
    """Return a visitor's key: an address, or the network of an IPv6 household."""
    address = _read(peer)
    if isinstance(address, IPv6Address):
        return str(ip_network((address, _HOME), strict=False))
    return str(address or peer)


def _read(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
