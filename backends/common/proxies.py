"""Chooses the HTTP proxy of a request: one rule for chats, servers, webhooks and fetched files.

Pure. Each client library reads the environment by a different rule: some use the proxy even for
servers on this machine, some ignore it, some fail on values that they cannot parse. So Usher gives
each of them the proxy for an address, and none reads the environment.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

_SCHEMES = {"ws": "http", "wss": "https"}
_PORTS = {"http": 80, "https": 443}
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_LOCAL_ENDS = (
    ".localhost",
    ".localdomain",
    ".local",
    ".lan",
    ".home",
    ".internal",
    ".home.arpa",
    ".ts.net",  # Tailscale's own network
)
"""The ends of names that only a local network can resolve."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Proxies:
    """The proxies for addresses of each scheme, and the hosts that are reached without one.

    `exceptions` are entries of NO_PROXY.
    """

    http: str | None = None
    https: str | None = None
    exceptions: tuple[str, ...] = ()

    def to(self, url: str) -> str | None:
        """Return the proxy for an address, or None if it is reached directly."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            return None
        scheme = _SCHEMES.get(parts.scheme, parts.scheme)
        proxy = {"http": self.http, "https": self.https}.get(scheme)
        host = (parts.hostname or "").rstrip(".")
        if proxy is None or not host or is_local(host):
            return None
        port = port or _PORTS[scheme]
        return None if any(_covers(each, host, port) for each in self.exceptions) else proxy


NO_PROXIES = Proxies()


def is_local(host: str) -> bool:
    """Return whether a host is this machine or in its own network, where no proxy is needed."""
    address = address_in(host)
    if address is not None:
        return not address.is_global
    name = host.casefold()
    return "." not in name or name.endswith(_LOCAL_ENDS)


def shown(proxy: str) -> str:
    """Return a proxy's address without its password."""
    parts = urlsplit(proxy)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def through(proxy: str | None) -> str:
    """Return the words that name the proxy in a message about a failure, or ""."""
    return f" (through the proxy {shown(proxy)})" if proxy else ""


def usable(value: str) -> str:
    """Return a proxy's address in full. Raises `ValueError` with what it must be."""
    text = value.strip().rstrip("/")
    if not _SCHEME.match(text):
        text = f"http://{text}"
    scheme, _, rest = text.partition("://")
    if scheme.casefold().startswith("socks"):
        raise ValueError("is a SOCKS proxy, and only HTTP proxies are supported")
    wanted = ValueError("must be the address of an HTTP proxy, such as http://192.168.1.5:3128")
    try:
        parts = urlsplit(f"{scheme.casefold()}://{rest}")
        port = parts.port
    except ValueError:
        raise wanted from None
    if parts.scheme not in _PORTS or not parts.hostname or re.search(r"[\s\\]", text):
        raise wanted
    if parts.path or parts.query or parts.fragment:
        raise wanted
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    login = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{login[0]}{login[1]}{name}:{port or _PORTS[parts.scheme]}"


def of_environment(environ: Mapping[str, str]) -> tuple[Proxies, tuple[str, ...]]:
    """Return the proxies that the environment names, and a phrase for each unusable variable."""
    found: dict[str, str | None] = {}
    wrong: dict[str, str] = {}
    for scheme in _PORTS:
        found[scheme] = None
        names = (f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY")
        for name in names:
            if not environ.get(name, "").strip():
                continue
            try:
                found[scheme] = usable(environ[name])
                break
            except ValueError as error:
                wrong[name] = f"{name} {error}"
    proxies = Proxies(http=found["http"], https=found["https"], exceptions=exceptions(environ))
    return proxies, tuple(wrong.values())


def exceptions(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the entries of NO_PROXY."""
    value = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    return tuple(each.casefold() for each in re.split(r"[,;\s]+", value) if each)


def _covers(entry: str, host: str, port: int) -> bool:
    """Return whether an entry of NO_PROXY matches a host.

    It is `*`, a name (which includes the names below it), an address or a network. An unreadable
    entry matches nothing.
    """
    if entry == "*":
        return True
    entry = _SCHEME.sub("", entry).rstrip("/") if "://" in entry else entry
    address = address_in(host)
    if address is not None and _in_network(address, entry):
        return True
    name, entry_port = _split(entry)
    if entry_port is not None and entry_port != port:
        return False
    if address is not None:
        return address_in(name) == address
    name = name.removeprefix("*").strip(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _split(entry: str) -> tuple[str, int | None]:
    """Return an entry's host and its port, if it has one."""
    if address_in(entry) is not None:
        return entry, None
    host, colon, port = entry.rpartition(":")
    if colon and port.isascii() and port.isdigit():
        return host, int(port)
    return entry, None


def _in_network(address: IPv4Address | IPv6Address, entry: str) -> bool:
    try:
        network = ip_network(entry, strict=False)
    except ValueError:
        return False
    return address in network


def address_in(text: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address in a text, without brackets and zone, or None. IPv4 stays IPv4 in IPv6."""
    try:
        found = ip_address(text.removeprefix("[").removesuffix("]").partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found
