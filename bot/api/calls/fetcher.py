"""Fetches what lies at an address: from the machine that was checked, within bytes and time.

A name is looked up once, and the connection goes to the addresses that were found then, so an
answer that changes between check and connection (DNS rebinding) changes nothing.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from bot.api.calls.fetch_targets import NotFetched, is_public, target_of
from bot.http.clients import sparing
from queueing.core.concurrency import in_daemon_thread, timeout, undisturbed

WHOLE_S = 20.0  # from the look-up to the last byte
CONNECT_S = 5.0
PORT = 443
AT_ONCE = 32
LOOKUPS_AT_ONCE = 4
PIECE = 64 * 1024
FAILED = "the image at this address could not be fetched"
HEADERS = {"Accept": "image/*", "Accept-Encoding": "identity", "User-Agent": "Usher"}

Lookup = Callable[[str], Sequence[str]]
"""Returns the IP addresses of a host name. Raises `OSError`. Called in a thread."""
Allows = Callable[[str], bool]
"""Returns whether an IP address may be connected to."""

_log = sparing(logging.getLogger(__name__))


def addresses_of(name: str) -> Sequence[str]:
    """Return the IP addresses of a host name, as the system knows them. Raises `OSError`."""
    found = socket.getaddrinfo(name, PORT, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def is_elsewhere(text: str) -> bool:
    """Return whether an IP address is public and not this machine's own."""
    if not is_public(text):
        return False
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((text, 0))  # only an address of this machine can be bound
    except OSError:
        return True
    return False


class Fetcher:
    """Fetches addresses. `lookup`, `allows`, `tls` and `port` are replaced in tests."""

    def __init__(
        self,
        *,
        lookup: Lookup = addresses_of,
        allows: Allows = is_elsewhere,
        tls: ssl.SSLContext | None = None,
        port: int = PORT,
        whole_s: float = WHOLE_S,
    ) -> None:
        self._guard = _Guard(lookup, allows, port)
        self._tls = tls or ssl.create_default_context()
        self._whole_s = whole_s
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def get(self, text: str, most: int) -> bytes:
        """Return what lies at an address, at most so many bytes. Raises `NotFetched`."""
        url = target_of(text)
        try:
            async with (
                timeout(self._whole_s),
                self._turns,
                self._session() as session,
                session.get(url, allow_redirects=False) as answer,
            ):
                return await _body(answer, most)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            _log.info("%s was not fetched: %r", url.host, error)
            raise NotFetched(FAILED) from None

    def _session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=self._guard,
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
    """Looks a name up once, and only lets public addresses through."""

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
        """Return the addresses of a name. Raises `OSError` if even one may not be connected to."""
        await self._free.acquire()
        # A hostile name server may take as long as it likes: the look-up keeps its place till then.
        found = in_daemon_thread(lambda: self._checked(host), "lookup")
        found.add_done_callback(lambda _: self._free.release())
        return [_result(host, address, self._port) for address in await undisturbed(found)]

    async def close(self) -> None:
        """Do nothing: sessions close their resolver, and this one serves all of them."""

    def _checked(self, host: str) -> Sequence[str]:
        found = list(dict.fromkeys(self._lookup(host)))
        if not found or not all(self._allows(each) for each in found):
            raise OSError("the name leads to no public address")
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
        raise NotFetched(f"the address answered with status {answer.status}")
    if (answer.content_length or 0) > most:
        raise NotFetched("the file at this address is too large")
    data = bytearray()
    async for piece in answer.content.iter_chunked(PIECE):
        data += piece
        if len(data) > most:
            raise NotFetched("the file at this address is too large")
    return bytes(data)
