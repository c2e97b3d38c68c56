"""Fetches files by URL, with limits on bytes and time, and only from public addresses.

Only https and full host names are allowed: otherwise a caller could reach hosts that only this
machine can reach, such as routers, metadata services and model servers.

Each name is resolved once, and the connection uses the addresses that were checked. That prevents
DNS rebinding, even through a proxy.
"""

import asyncio
import logging
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import aiohttp
from aiohttp import hdrs
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from backends.common.proxies import NO_PROXIES, Proxies, through
from bot.http.clients import sparing
from queueing.core.concurrency import in_daemon_thread, timeout, undisturbed

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


WHOLE_S = 20.0  # from name resolution to the last byte
CONNECT_S = 5.0
PORT = 443
AT_ONCE = 32
LOOKUPS_AT_ONCE = 4
PIECE = 64 * 1024
FAILED = "the image at this URL could not be fetched"
HEADERS = {"Accept": "image/*", "Accept-Encoding": "identity", "User-Agent": "Usher"}

Lookup = Callable[[str], Sequence[str]]
"""Resolves a host name to IP addresses. Raises `OSError`. Called in a thread."""
Allows = Callable[[str], bool]
"""Returns whether connecting to an IP address is allowed."""

_log = sparing(logging.getLogger(__name__))


def addresses_of(name: str) -> Sequence[str]:
    """Resolve a host name with the system's resolver. Raises `OSError`."""
    found = socket.getaddrinfo(name, PORT, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def is_elsewhere(text: str) -> bool:
    """Return whether an IP address is public and does not belong to this machine."""
    if not is_public(text):
        return False
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((text, 0))  # bind only succeeds for this machine's addresses
    except OSError:
        return True
    return False


class Fetcher:
    """Fetches URLs, through a proxy if there is one. Tests replace the other parameters."""

    def __init__(
        self,
        *,
        lookup: Lookup = addresses_of,
        allows: Allows = is_elsewhere,
        tls: ssl.SSLContext | None = None,
        port: int = PORT,
        whole_s: float = WHOLE_S,
        proxies: Proxies = NO_PROXIES,
    ) -> None:
        self._guard = _Guard(lookup, allows, port)
        self._tls = tls or ssl.create_default_context()
        self._port = port
        self._whole_s = whole_s
        self._proxies = proxies
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def get(self, text: str, most: int) -> bytes:
        """Return the content of a URL, at most `most` bytes. Raises `NotFetched`."""
        url = target_of(text)
        proxy = self._proxies.to(str(url))
        try:
            async with (
                timeout(self._whole_s),
                self._turns,
                self._session(None if proxy else self._guard) as session,
                self._asked(session, url, proxy) as answer,
            ):
                return await _body(answer, most)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            _log.info("cannot fetch a file from %s%s: %r", url.host, through(proxy), error)
            raise NotFetched(FAILED) from None

    @asynccontextmanager
    async def _asked(
        self, session: aiohttp.ClientSession, url: URL, proxy: str | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Provide the response to a request.

        A proxy gets the checked address, because it could resolve the name to another one.
        """
        there, name = url, None
        if proxy is not None:
            name = url.raw_host
            checked = await self._guard.resolve(name or "")
            there = url.with_host(checked[0]["host"]).with_port(self._port)
        async with session.get(
            there,
            proxy=proxy,
            server_hostname=name,
            headers={hdrs.HOST: name} if name else None,
            allow_redirects=False,
        ) as answer:
            yield answer

    def _session(self, resolver: AbstractResolver | None) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=resolver,
            use_dns_cache=False,
            force_close=True,
            ssl=self._tls,
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=HEADERS,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            auto_decompress=False,
            trust_env=False,
        )


class _Guard(AbstractResolver):
    """Resolves each name once, and only to public addresses."""

    def __init__(self, lookup: Lookup, allows: Allows, port: int) -> None:
        self._lookup = lookup
        self._allows = allows
        self._port = port
        self._free = asyncio.Semaphore(LOOKUPS_AT_ONCE)

    async def resolve(
        self,
        host: str,
        port: int = 0,  # noqa: ARG002
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002
    ) -> list[ResolveResult]:
        """Resolve a name. Raises `OSError` if any of its addresses is not allowed."""
        await self._free.acquire()
        # A hostile name server can delay the lookup, which keeps its slot until it ends.
        found = in_daemon_thread(lambda: self._checked(host), "lookup")
        found.add_done_callback(lambda _: self._free.release())
        return [_result(host, address, self._port) for address in await undisturbed(found)]

    async def close(self) -> None:
        """Do nothing. Sessions close their resolver, but all of them share this one."""

    def _checked(self, host: str) -> Sequence[str]:
        found = list(dict.fromkeys(self._lookup(host)))
        if not found or not all(self._allows(each) for each in found):
            raise OSError("the name does not resolve to public addresses only")
        return found


def _result(host: str, address: str, port: int) -> ResolveResult:
    return ResolveResult(
        hostname=host,
        host=address,
        port=port,
        family=socket.AF_INET6 if ":" in address else socket.AF_INET,
        proto=socket.IPPROTO_TCP,
        flags=socket.AI_NUMERICHOST,
    )


async def _body(answer: aiohttp.ClientResponse, most: int) -> bytes:
    if answer.status != 200:
        raise NotFetched(f"the URL returned status {answer.status}")
    if (answer.content_length or 0) > most:
        raise NotFetched("the file at this URL is too large")
    data = bytearray()
    async for piece in answer.content.iter_chunked(PIECE):
        data += piece
        if len(data) > most:
            raise NotFetched("the file at this URL is too large")
    return bytes(data)
