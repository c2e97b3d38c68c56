"""Reads what an inference server answers: bounded, never unpacked, with every bad status as an error."""

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

from queueing.core.bounded_json import TooManyValues, require_few_values
from queueing.core.errors import Rejected, Unavailable, UnknownFailure, UnreadableAnswer

JSON_LIMIT = 64 * 1024 * 1024  # of an answer that may hold images
WORDS_LIMIT = 8 * 1024 * 1024  # of JSON that says something about a server
LARGE = 1024 * 1024  # from here on, a server's answers are read and parsed one at a time
VALUES_MOST = 1_000_000  # of one answer
LINE_LIMIT = 8 * 1024 * 1024
PIECE = 16 * 1024  # of an answer that is read by lines, so that a flood comes in small turns
ERROR_LIMIT = 64 * 1024  # of an error's body; enough for any text worth reading

# Also matches half of a whole character: then a second look decides.
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


class HttpRefused(Rejected):
    """The server answered with a 4xx status; `body` is its text, at most `ERROR_LIMIT` bytes.

    The text may hold file lists and paths of the server: for the log, not for people. `after_s` is
    when it says to ask again, if it does.
    """

    def __init__(self, cause: str, *, status: int, body: str, after_s: float | None = None) -> None:
        super().__init__(cause)
        self.status = status
        self.body = body
        self.after_s = after_s


class HttpFailed(Unavailable):
    """The server answered with another bad status (3xx, 408, 429, 5xx); the rest as above.

    It is away as far as its own calls tell; what it means for a request is up to each kind's table.
    """

    def __init__(self, cause: str, *, status: int, body: str, after_s: float | None = None) -> None:
        super().__init__(cause)
        self.status = status
        self.body = body
        self.after_s = after_s


class ErrorInAnswer(UnknownFailure):
    """The server reported an error inside an answer with status 200; `body` is its text or JSON."""

    def __init__(self, body: JsonValue) -> None:
        super().__init__("an error inside an answer")
        self.body = body


def parse_json(data: bytes | str) -> JsonValue:
    """Return parsed JSON; raise `UnreadableAnswer` for anything else, however long or deeply nested.

    Escaped lone surrogates become "?": neither a database nor a chat can store them.
    """
    require_values(data)
    with suppress(ValueError):  # such as for half a character
        parsed: JsonValue = from_json(data)  # a tenth of the time where there are many numbers
        return parsed
    try:
        value: JsonValue = json.loads(data)
        if _HALF.search(data if isinstance(data, bytes) else data.encode(errors="replace")):
            value = json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError):
        raise UnreadableAnswer(f"the server answered no JSON: {_excerpt(data)}") from None
    return value


def require_values(data: bytes | str) -> None:
    """Refuse JSON that would take much memory. Raises `UnreadableAnswer`."""
    try:
        if len(data) > VALUES_MOST:
            text = data if isinstance(data, bytes) else data.encode(errors="replace")
            require_few_values(text, VALUES_MOST)
    except TooManyValues as error:
        raise UnreadableAnswer(f"the server answered {error}") from None


async def status_error(call: str, response: aiohttp.ClientResponse) -> HttpRefused | HttpFailed:
    """Return what a bad status means; `call` names the request without addresses or secrets."""
    status = response.status
    body = (await read_body(response, ERROR_LIMIT, cut=True)).decode(errors="replace")
    cause = f"{call}: status {status}: {_excerpt(body)}"
    refused = 400 <= status < 500 and status not in {408, 429}
    after_s = _seconds(response.headers.get("retry-after", ""))
    kind = HttpRefused if refused else HttpFailed
    return kind(cause, status=status, body=body, after_s=after_s)


def _seconds(told: str) -> float | None:
    """Return what a Retry-After says, in seconds or as a date; None if it says neither."""
    with suppress(ValueError, OverflowError):
        return max(0.0, float(told)) if isfinite(float(told)) else None
    with suppress(ValueError, OverflowError, TypeError):  # such as for a date without a zone
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
    """Read a body; more than `limit` bytes raise an error, or are left unread with `cut`.

    A large one waits for its `turn` before the rest is read.
    """
    chunks, size = [], 0  # joined once: growing one buffer would copy an image many times
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
            chunks.clear()  # else kept by the error for as long as that is handled
            raise UnreadableAnswer(f"the server's answer is larger than {limit} bytes")
    return b"".join(chunks)


def _require_plain(response: aiohttp.ClientResponse) -> None:
    """Refuse compressed answers, which are never unpacked: a kilobyte can hold gigabytes of nothing."""
    if _is_compressed(response):
        raise UnreadableAnswer("the server compresses its answers although it is asked not to")


def _is_compressed(response: aiohttp.ClientResponse) -> bool:
    return response.headers.get("content-encoding", "").strip().lower() not in {"", "identity"}


class AnswerLines:
    """The lines of an answer in batches as they arrive, without their ends: CR, LF, or both.

    No generator: one that is left early is closed by the loop, in a task of its own.
    """

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._rest: list[bytes] = []  # of the line that has begun; joined once
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
        """Split at the ends of lines; one may be in two halves, CR and LF.

        `str.splitlines` would also split at U+2028 and the like, which JSON may hold raw.
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
    errno.ECONNREFUSED: "nothing listens at its port",
    errno.EHOSTUNREACH: "there is no way to its machine",
    errno.ENETUNREACH: "there is no way to its network",
    errno.ETIMEDOUT: "its machine does not answer",
}
UNTRUSTED = (
    "its certificate is not trusted on this machine; SSL_CERT_FILE names a file of those that are"
)
NO_TLS = "it does not speak https; its address may begin with http://"


def why_unreachable(error: aiohttp.ClientError) -> str:
    """Return why a connection could not be made; the same failure is told in the same words."""
    cause = getattr(error, "os_error", None) or getattr(error, "certificate_error", None)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return UNTRUSTED
    if isinstance(cause, ssl.SSLError):
        return NO_TLS
    if isinstance(cause, socket.gaierror):
        return "the name of its machine is not known"
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return _BY_NUMBER[errno.ETIMEDOUT]
    known = _BY_NUMBER.get(getattr(cause, "errno", None) or 0)
    return known or f"no connection ({type(cause or error).__name__})"
