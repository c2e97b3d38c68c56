"""Reads an inference server's responses within limits. A bad status raises an error.

Compressed responses are rejected, because a small one can expand to gigabytes.
"""

import errno
import json
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Self

import aiohttp
from pydantic import JsonValue
from pydantic_core import from_json
from yarl import URL

from queueing.core.bounded_json import TooManyValues, require_few_values
from queueing.core.errors import (
    BackendError,
    Rejected,
    Unavailable,
    UnknownFailure,
    UnreadableAnswer,
)

JSON_LIMIT = 64 * 1024 * 1024  # of a response that may contain images
WORDS_LIMIT = 8 * 1024 * 1024  # of a response that contains only text about a server
LARGE = 1024 * 1024  # responses above this size are read and parsed one at a time
VALUES_MOST = 1_000_000  # JSON values in one response
LINE_LIMIT = 8 * 1024 * 1024
PIECE = 16 * 1024  # read size for streamed lines, so that a flood does not block the event loop
ERROR_LIMIT = 64 * 1024  # of an error's body

# Also matches half of a valid surrogate pair; encoding then replaces only lone surrogates.
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


class BadStatus(BackendError):
    """The server responded with a bad status; `body` is its text, at most `ERROR_LIMIT` bytes.

    The text may contain the server's file lists and paths, so it is only for the log. `after_s` is
    the server's Retry-After in seconds, if it sent one.
    """

    def __init__(self, cause: str, *, status: int, body: str, after_s: float | None = None) -> None:
        super().__init__(cause)
        self.status = status
        self.body = body
        self.after_s = after_s


class HttpRefused(BadStatus, Rejected):
    """The server responded with a 4xx status."""


class HttpFailed(BadStatus, Unavailable):
    """The server responded with another bad status: 3xx, 408, 429 or 5xx.

    Control calls treat the server as unavailable. For jobs, the rules of its kind decide.
    """


class Redirected(HttpFailed):
    """The server redirects to another address. Usher never follows, as that would get the token."""


class ErrorInAnswer(UnknownFailure):
    """The server reported an error in a response with status 200; `body` is its text or JSON."""

    def __init__(self, body: JsonValue) -> None:
        super().__init__("an error inside an answer")
        self.body = body


def parse_json(data: bytes | str) -> JsonValue:
    """Parse JSON.

    Raises `UnreadableAnswer` for invalid JSON of any length or depth. Escaped lone surrogates
    become "?", because neither a database nor a chat can store them.
    """
    require_values(data)
    with suppress(ValueError):  # for example, a lone surrogate
        parsed: JsonValue = from_json(data)  # ten times as fast as `json` for many numbers
        return parsed
    try:
        value: JsonValue = json.loads(data)
        if _HALF.search(data if isinstance(data, bytes) else data.encode(errors="replace")):
            value = json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError):
        raise UnreadableAnswer(f"the server's answer is not JSON: {_excerpt(data)}") from None
    return value


def require_values(data: bytes | str) -> None:
    """Raise `UnreadableAnswer` for JSON with too many values, which would use much memory."""
    try:
        if len(data) > VALUES_MOST:
            text = data if isinstance(data, bytes) else data.encode(errors="replace")
            require_few_values(text, VALUES_MOST)
    except TooManyValues as error:
        raise UnreadableAnswer(f"the server answered {error}") from None


async def status_error(call: str, response: aiohttp.ClientResponse, base: str) -> BadStatus:
    """Return the error for a bad status.

    `call` names the request without address and secrets, and `base` is the server's address.
    """
    status = response.status
    body = (await read_body(response, ERROR_LIMIT, cut=True)).decode(errors="replace")
    moved = _moved(response, base)
    cause = f"{call}: status {status}: {moved or _excerpt(body)}"
    refused = 400 <= status < 500 and status not in {408, 429}
    after_s = _seconds(response.headers.get("retry-after", ""))
    kind = Redirected if moved else HttpRefused if refused else HttpFailed
    return kind(cause, status=status, body=body, after_s=after_s)


def _moved(response: aiohttp.ClientResponse, base: str) -> str:
    """Return where a response redirects to, without what may be secret; empty if it does not.

    If the server's other calls would be found there as well, this includes the `url` to configure.
    """
    to = response.headers.get("location", "")
    if not 300 <= response.status < 400 or not to:
        return ""
    try:
        url = response.url.join(URL(to)).with_user(None).with_query(None).with_fragment(None)
    except ValueError:
        return ""
    told = f"it redirects to {str(url)[:200]!a}"
    called = str(response.url.with_query(None)).removeprefix(base)
    there, found, rest = str(url).rpartition(called)
    if not found or rest not in {"", "/"}:
        return told
    if there == base:
        return f"{told}, with a slash that the server or a proxy before it must not demand"
    return f"{told}; if that is the same server, set url: {there[:200]}"


def _seconds(told: str) -> float | None:
    """Convert a Retry-After header, in seconds or as a date, to seconds; None if it is invalid."""
    with suppress(ValueError, OverflowError):
        return max(0.0, float(told)) if isfinite(float(told)) else None
    with suppress(ValueError, OverflowError, TypeError):  # for example, a date without a time zone
        at = parsedate_to_datetime(told)
        return max(0.0, (at - datetime.now(UTC)).total_seconds())
    return None


async def read_body(
    response: aiohttp.ClientResponse,
    limit: int,
    *,
    cut: bool = False,
    turn: Callable[[], Awaitable[None]] | None = None,
) -> bytes:
    """Read a body. Above `limit` bytes, raises `UnreadableAnswer`, or truncates it with `cut`.

    A large body awaits `turn` before the rest is read.
    """
    chunks, size = [], 0  # joined once: growing a buffer would copy an image many times
    if cut and _is_compressed(response):
        return b""
    _require_plain(response)
    while chunk := await response.content.readany():
        chunks.append(chunk)
        size += len(chunk)
        if turn is not None and size > LARGE:
            await turn()
            turn = None
        if size > limit:
            if cut:
                return b"".join(chunks)[:limit]
            chunks.clear()  # the error's traceback would keep them in memory
            raise UnreadableAnswer(f"the server's answer is larger than {limit} bytes")
    return b"".join(chunks)


def _require_plain(response: aiohttp.ClientResponse) -> None:
    if _is_compressed(response):
        raise UnreadableAnswer("the server compresses its answers although asked not to")


def _is_compressed(response: aiohttp.ClientResponse) -> bool:
    return response.headers.get("content-encoding", "").strip().lower() not in {"", "identity"}


class AnswerLines:
    """The lines of a response in batches as they arrive, without line ends (CR, LF or CRLF).

    Not a generator, because the event loop would close an abandoned one in a separate task.
    """

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._rest: list[bytes] = []  # parts of the unfinished line, joined once
        self._length = 0
        self._after_cr = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Sequence[str]:
        _require_plain(self._response)
        while chunk := await self._response.content.read(PIECE):
            first, *others = self._split(chunk)
            self._rest.append(first)
            self._length += len(first)
            if self._length > LINE_LIMIT:
                raise UnreadableAnswer(f"the server sent a line of more than {LINE_LIMIT} bytes")
            if others:
                lines, self._rest = [b"".join(self._rest), *others[:-1]], others[-1:]
                self._length = len(others[-1])
                return [_line(line) for line in lines]
        last, self._rest = b"".join(self._rest), []
        if not last:
            raise StopAsyncIteration
        return [_line(last)]

    def _split(self, chunk: bytes) -> list[bytes]:
        """Split into lines; a CRLF may be divided between two chunks.

        `str.splitlines` would also split at U+2028 and the like, which raw JSON may contain.
        """
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")


def _line(line: bytes) -> str:
    require_values(line)
    return line.decode(errors="replace")


def _excerpt(data: bytes | str) -> str:
    text = data if isinstance(data, str) else data[:1000].decode(errors="replace")
    return ascii(text[:200])


_BY_NUMBER: Mapping[int, str] = {
    errno.ECONNREFUSED: "connection refused; is it running?",
    errno.EHOSTUNREACH: "no route to its host",
    errno.ENETUNREACH: "no route to its network",
    errno.ETIMEDOUT: "its host does not answer",
}
UNTRUSTED = (
    "this machine does not trust its certificate; set SSL_CERT_FILE to a file of trusted ones"
)
NO_TLS = "it does not speak https; try http:// in its address"


def why_unreachable(error: aiohttp.ClientError) -> str:
    """Return why a connection failed. The same cause always gives the same text."""
    cause = getattr(error, "os_error", None) or getattr(error, "certificate_error", None)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return UNTRUSTED
    if isinstance(cause, ssl.SSLError):
        return NO_TLS
    if isinstance(cause, socket.gaierror):
        return "its host name cannot be resolved"
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return _BY_NUMBER[errno.ETIMEDOUT]
    known = _BY_NUMBER.get(getattr(cause, "errno", None) or 0)
    return known or f"no connection ({type(cause or error).__name__})"
