"""Parses listening addresses and decides whether a request comes from this machine. Pure.

A proxy on this machine connects from this machine, whoever it serves. So a local peer address does
not prove that the visitor is local, nor does a Host header, which the proxy may have replaced.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from multidict import CIMultiDictProxy

from bot.http.clients import host_allowed

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_PORT = re.compile(r"[0-9]{1,5}")


def is_loopback(host: str) -> bool:
    """Return whether an address or name to listen on is only reachable from this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_every_address(host: str) -> bool:
    """Return whether a host is a wildcard for all addresses, which others cannot connect to."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def is_public(host: str) -> bool:
    """Return whether an address is public. Names are never resolved."""
    try:
        return ip_address(host).is_global
    except ValueError:
        return False


def host_and_port(text: str) -> tuple[str, int]:
    """Parse `host`, `host:port`, `[::1]:port` or `::1`. The port is 0 if missing.

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
        raise ValueError(f"{text!r} contains no host")
    if not _PORT.fullmatch(port) or int(port) > 65_535:
        raise ValueError(f"{port!r} is not a port")
    return host, int(port)


def joined(host: str, port: int) -> str:
    """Join host and port, as in `10.0.0.7:8124` or `[::1]:8124`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_ipv6(text: str) -> bool:
    try:
        return ip_address(text).version == 6
    except ValueError:
        return False


CLIENT_HEADERS = (
    "Forwarded",
    "X-Forwarded-For",
    "X-Original-Forwarded-For",
    "X-Real-IP",
    "CF-Connecting-IP",
    "CF-Connecting-IPv6",
    "True-Client-IP",
    "Client-IP",
    "X-Client-IP",
    "X-Cluster-Client-IP",
    "Fly-Client-IP",
    "Fastly-Client-IP",
    "X-Azure-ClientIP",
    "X-Azure-SocketIP",
    "X-Envoy-External-Address",
)
"""Headers in which proxies and tunnels name the client."""
PLACE_HEADERS = (*CLIENT_HEADERS, "X-Forwarded-Host", "X-Original-Host", "Via")
"""These headers and those that name the requested host or a proxy."""
_FORWARDED = re.compile(
    r"via$|x?-?forwarded|x-original-|x-real-|cf-|cdn-loop$|front-end-https$|x-azure-|x-amz"
    r"|x-envoy-|x-cloud-trace|.*client-?ip",
    re.IGNORECASE,
)
"""Headers that proxies and tunnels add, with any value."""
_PORT_AT_END = re.compile(r":\d{1,5}$")


def opened_by(
    host: str, *, url: str | None = None, names: Iterable[str] = (), proxies: Collection[str] = ()
) -> str | None:
    """Return the setting that makes a server reachable from other machines, or None.

    Any configured proxy does, because it forwards other machines' requests.
    """
    if not _is_loopback(host):
        return "host"
    if url is not None and not _is_local(urlsplit(url).hostname or ""):
        return "url"
    if not all(map(_is_local, names)):
        return "names"
    return "proxies" if proxies else None


def why_not_local(headers: CIMultiDictProxy[str], names: Collection[str] = ()) -> str | None:
    """Explain in a sentence why a request does not come from this machine; None if it does.

    `names` are additional host names of this machine. Anybody can write these headers, so they can
    only make a request foreign: by an address that is not this machine's, or by a forwarded request
    that names no client.
    """
    for host in headers.getall("Host", [""]):
        if not host_allowed(host, loopback=True, names=names):
            return "The request's host name is not one of this machine's."
    for header in PLACE_HEADERS:
        for value in headers.getall(header, []):
            if not all(map(_is_local, _places(header, value))):
                return f"The request was forwarded for another machine (its header {header})."
    added = next(filter(_FORWARDED.match, headers), None)
    if added is not None and not any(header in headers for header in CLIENT_HEADERS):
        return f"The request was forwarded (its header {added[:40]}) and names no client."
    return None


def _places(header: str, value: str) -> Iterator[str]:
    """Yield the hosts in a header value. A part that cannot be parsed is yielded unchanged."""
    for hop in map(str.strip, value.split(",")):
        match header:
            case "Forwarded":
                yield from _of_forwarded(hop)
            case "Via":  # a protocol, then the proxy with or without its port
                yield _without_port(hop.split(" ")[1] if " " in hop else hop)
            case _:
                yield _without_port(hop)


def _of_forwarded(hop: str) -> Iterator[str]:
    """Yield the client, proxy and host of one hop.

    A hop that names no client, repeats a name or has further names is also yielded unchanged,
    because proxies may interpret it differently.
    """
    pairs = [pair.partition("=")[::2] for pair in hop.casefold().split(";")]
    named = {name.strip(): value.strip().strip('"') for name, value in pairs}
    if len(named) < len(pairs) or not {"for"} <= named.keys() <= {"for", "by", "host", "proto"}:
        yield hop
    yield from (_without_port(value) for name, value in named.items() if name != "proto")


def _without_port(place: str) -> str:
    """Remove the port from a host. An IPv6 address only has one after its brackets."""
    if place.count(":") > 1 and not place.startswith("["):
        return place
    return _PORT_AT_END.sub("", place)


def _is_local(name: str) -> bool:
    """Return whether a host name or address always means this machine."""
    name = name.strip("[]").casefold().rstrip(".")
    return name.endswith(".localhost") or _is_loopback(name)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
