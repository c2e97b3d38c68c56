"""What an address to listen on means, and what counts as this machine's own. Pure.

A proxy on this machine connects from this machine whomever it serves, so neither the peer's address
nor a Host header that the proxy replaced is enough to trust a visitor.
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
"""The headers in which proxies and tunnels name the client."""
PLACE_HEADERS = (*CLIENT_HEADERS, "X-Forwarded-Host", "X-Original-Host", "Via")
"""Those, and the headers that name the host asked for or a proxy."""
_FORWARDED = re.compile(
    r"via$|x?-?forwarded|x-original-|x-real-|cf-|cdn-loop$|front-end-https$|x-azure-|x-amz"
    r"|x-envoy-|x-cloud-trace|.*client-?ip",
    re.IGNORECASE,
)
"""A header that a proxy or tunnel adds, whatever it holds."""
_PORT_AT_END = re.compile(r":\d{1,5}$")


def opened_by(
    host: str, *, url: str | None = None, names: Iterable[str] = (), proxies: Collection[str] = ()
) -> str | None:
    """Return the setting by which other machines reach a server; None if none does.

    A proxy does, wherever it is: it passes on the requests of others.
    """
    if not _is_loopback(host):
        return "host"
    if url is not None and not _is_local(urlsplit(url).hostname or ""):
        return "url"
    if not all(map(_is_local, names)):
        return "names"
    return "proxies" if proxies else None


def why_not_local(headers: CIMultiDictProxy[str], names: Collection[str] = ()) -> str | None:
    """Return in a sentence why a request is not this machine's own; None if it is.

    `names` are further host names of this machine. Anybody can write these headers, so they never
    make a request local; an address in them that is not this machine's own rules it out, and so
    does a forwarded request that names no client.
    """
    for host in headers.getall("Host", [""]):
        if not host_allowed(host, loopback=True, names=names):
            return "The request asks for a host name that is not this machine's own."
    for header in PLACE_HEADERS:
        for value in headers.getall(header, []):
            if not all(map(_is_local, _places(header, value))):
                return f"The request was forwarded for another machine, by its header {header}."
    added = next(filter(_FORWARDED.match, headers), None)
    if added is not None and not any(header in headers for header in CLIENT_HEADERS):
        return f"The request was forwarded, by its header {added[:40]}, and names no client."
    return None


def _places(header: str, value: str) -> Iterator[str]:
    """Yield the hosts that a value names; what cannot be read as one stays as it is."""
    for hop in map(str.strip, value.split(",")):
        match header:
            case "Forwarded":
                yield from _of_forwarded(hop)
            case "Via":  # a protocol and then the proxy, with or without its port
                yield _without_port(hop.split(" ")[1] if " " in hop else hop)
            case _:
                yield _without_port(hop)


def _of_forwarded(hop: str) -> Iterator[str]:
    """Yield the client, the proxy and the host of one hop; a hop without a client names nobody.

    One that names something twice or says more than these stays as it is: proxies may differ in
    which of the two they mean.
    """
    pairs = [pair.partition("=")[::2] for pair in hop.casefold().split(";")]
    named = {name.strip(): value.strip().strip('"') for name, value in pairs}
    if len(named) < len(pairs) or not {"for"} <= named.keys() <= {"for", "by", "host", "proto"}:
        yield hop
    yield from (_without_port(value) for name, value in named.items() if name != "proto")


def _without_port(place: str) -> str:
    """Return a host without its port; an IPv6 address has one only behind its brackets."""
    if place.count(":") > 1 and not place.startswith("["):
        return place
    return _PORT_AT_END.sub("", place)


def _is_local(name: str) -> bool:
    """Return whether a host name or address can only mean this machine."""
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
