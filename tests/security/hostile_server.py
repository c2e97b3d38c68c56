"""A hostile server: it gives every path the same answer, according to one of `ANSWERS`."""

import socketserver
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass

import aiohttp
import pytest
from yarl import URL

WIDE = 8_000_000
REASON = "the model is corrupted"  # in a server's own words
SECRET = "what somebody else asked for"  # the words of a caller
_PIECE = bytes(256 * 1024)
_JSON = b"Content-Type: application/json\r\n"
_EVENTS = b"Content-Type: text/event-stream\r\n"


def _whole(body: bytes, *, head: bytes = _JSON, status: bytes = b"200 OK") -> tuple[bytes, bytes]:
    begin = b"HTTP/1.1 %s\r\n%sConnection: close\r\nContent-Length: %d\r\n\r\n"
    return begin % (status, head, len(body)) + body, b""


def _endless(piece: bytes, *, head: bytes = _JSON) -> tuple[bytes, bytes]:
    return b"HTTP/1.1 200 OK\r\n%sConnection: close\r\n\r\n" % head, piece


def _events(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _zeros(megabytes: int) -> bytes:
    """Return this many compressed zeros: one block repeated, which takes no time to make."""
    making = zlib.compressobj(1, wbits=-15)
    block = making.compress(bytes(1_000_000)) + making.flush(zlib.Z_FULL_FLUSH)
    return block * megabytes + making.flush()


_WORDS = b'{"error": {"message": "CUDA out of memory: %s"}}' % SECRET.encode()

ANSWERS: Mapping[str, tuple[bytes, bytes]] = {
    "lists": _whole(b"[" + b"[]," * (WIDE // 3) + b"[]]"),
    "objects": _whole(b'{"data": [' + b"{}," * (WIDE // 3) + b"{}]}"),
    "lists within the limit": _whole(b'{"data": [' + b"[]," * 490_000 + b"[]]}"),
    "objects within the limit": _whole(b'{"models": [' + b"{}," * 490_000 + b"{}]}"),
    "nested lists": _whole(b"[" * WIDE),
    "nested objects": _whole(b'{"data":' * (WIDE // 8)),
    "compressed": _whole(_zeros(200), head=_JSON + b"Content-Encoding: deflate\r\n"),
    "compressed error": _whole(_zeros(200), head=b"Content-Encoding: deflate\r\n", status=b"500 X"),
    "endless headers": (b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n" * 10_000),
    "endless header": (b"HTTP/1.1 200 OK\r\nX-More: ", b"x" * 100_000),
    "endless status": (b"HTTP/1.1 200 ", b"x" * 100_000),
    "endless interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 4000),
    "endless body": _endless(_PIECE),
    "endless text": _endless(b'"' + b"x" * len(_PIECE), head=_EVENTS),
    "endless lines": _endless(b"\n" * len(_PIECE), head=_EVENTS),
    "endless events": _endless(_events(b'{"choices": []}') * 5000, head=_EVENTS),
    "endless comments": _endless(b": ping\n\n" * 20_000, head=_EVENTS),
    "endless data": _endless(b"data: x\r" * 20_000, head=_EVENTS),
    "endless thoughts": _endless(
        _events(b'{"choices": [{"delta": {"reasoning": "x"}}]}') * 5000, head=_EVENTS
    ),
    "wide event": _whole(_events(b'{"choices": [' + b"{}," * (WIDE // 3) + b"{}]}"), head=_EVENTS),
    "endless chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"1;%s\r\n \r\n" % (b"x" * 100) * 1000,
    ),
    "page": _whole(b"<html><title>Sign in</title></html>", head=b"Content-Type: text/html\r\n"),
    "empty": _whole(b""),
    "null": _whole(b"null"),
    "number": _whole(b"9" * 100_000),
    "error": _whole(_WORDS, status=b"500 Internal Server Error"),
    "long refusal": _whole(b"a" * 60_000, status=b"400 Bad Request"),
    "no memory": _whole(b'{"error": "CUDA error: out of memory"}', status=b"500 X"),
    "no main memory": _whole(
        b'{"error": "model requires more system memory (9.1 GiB) than is available (3.2 GiB)"}',
        status=b"500 X",
    ),
    "told error": _whole(
        b'{"error": {"message": "%s\\n\\u001b[31m%s"}}' % (REASON.encode(), b"x" * 30_000),
        status=b"500 X",
    ),
    "unclosed error": _whole(b"{" * 60_000, status=b"500 X"),
    "refusal": _whole(_WORDS, status=b"400 Bad Request"),
    "error in a whole answer": _whole(_WORDS),
    "long error": _whole(b"out of memory " * 500_000, status=b"503 X"),
    "elsewhere": _whole(b"", head=b"Location: http://192.0.2.1/\r\n", status=b"307 X"),
    "cut": (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{", b""),
    "cut at once": (b"", b""),
    "no HTTP": (b"\x15\x03\x01\x00\x02\x02\x16" * 100, b""),
    "silence": (b"", b"."),
    "drip": _endless(b" "),
}
"""By name, what is sent at once, and what is sent again and again afterwards."""

SLOW = {"silence", "drip"}


class _Handler(socketserver.BaseRequestHandler):
    server: "HostileServer"

    def handle(self) -> None:
        """Accept a request, and answer it as its server does now."""
        name = self.server.answer
        first, more = ANSWERS[name]
        with suppress(OSError):
            self.request.settimeout(2)
            self.request.recv(65_536)
            self.request.sendall(first)
            while more and not self.server.over.is_set() and self.server.answer == name:
                if name != "silence":
                    self.request.sendall(more)
                if name in SLOW:
                    time.sleep(0.05)


class HostileServer(socketserver.ThreadingTCPServer):
    """Listens in threads, so that its own work is not measured as the bot's."""

    allow_reuse_address = True
    request_queue_size = 100

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = "empty"
        self.over = threading.Event()


@dataclass(slots=True)
class Asked:
    """The requests of one call; those that come `after` so many go to the hostile server."""

    after: int
    count: int = 0

    @property
    def reached(self) -> bool:
        """Whether the hostile server got a request."""
        return self.count > self.after


ASKED: ContextVar[Asked | None] = ContextVar("asked", default=None)
"""What a call and its tasks count; without it, requests go where they belong."""


@contextmanager
def hostile_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileServer]:
    """Provide a server that replaces every other one for calls that set `ASKED`."""
    server = HostileServer()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    request = aiohttp.ClientSession._request

    async def redirected(
        session: aiohttp.ClientSession, method: str, url: object, **given: object
    ) -> aiohttp.ClientResponse:
        asked = ASKED.get()
        if asked is not None:
            asked.count += 1
        if asked is not None and asked.reached:
            url = URL(str(url)).with_port(server.server_address[1])
        return await request(session, method, url, **given)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(aiohttp.ClientSession, "_request", redirected)
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            server.server_close()
