"""Sends files over HTTP in pieces, whole or as a range, within limits on memory.

Used for people's files on the page and for signed links. Callers check access first. The next piece
is read once the previous one was sent, so a stalled download holds one piece in memory. A download
whose piece does not move is closed.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote

from aiohttp import web

from backends.common.file_types import PLAYED
from queueing.core.concurrency import timeout
from queueing.core.requests import File

_log = logging.getLogger(__name__)

PIECE = 256 * 1024  # bytes
AT_ONCE_EACH = 4  # concurrent downloads per person
AT_ONCE = 64  # concurrent downloads in total
PIECE_S = 30.0  # to send a piece: 9 kB/s; slower connections are considered dead
WAIT_S = 60.0  # to wait for a slot

FILE_POLICY = "default-src 'none'; sandbox"
# Types that the page may show or play. All others, above all SVG and HTML, are only offered as
# downloads.
INLINE_TYPES = PLAYED | {"image/png", "image/jpeg", "image/webp", "image/gif", "image/avif"}

ReadPiece = Callable[[int, int], Awaitable[bytes | None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sendable:
    """A file to send: its description, and a function that reads `length` bytes from `start`.

    `tag` changes only if the content changes. `piece` returns None once the file is gone.
    """

    name: str
    mime: str
    size: int
    tag: str
    piece: ReadPiece


def sendable(file: File, *, tag: str) -> Sendable:
    """Wrap a file in memory."""

    async def piece(start: int, length: int) -> bytes:
        return file.data[start : start + length]

    return Sendable(name=file.name, mime=file.mime, size=len(file.data), tag=tag, piece=piece)


class _Broken(Exception):
    """Raised when a file cannot be sent completely."""


class DownloadSlots:
    """Limits concurrent downloads per person and in total."""

    def __init__(self, *, each: int = AT_ONCE_EACH, overall: int = AT_ONCE) -> None:
        self._each = each
        self._overall = overall
        self._running: Counter[str] = Counter()
        self._ended = asyncio.Condition()

    @asynccontextmanager
    async def of(self, whose: str) -> AsyncIterator[None]:
        """Hold a slot of the person `whose`, waiting for one. Raises 429 if none becomes free."""
        try:
            async with timeout(WAIT_S), self._ended:
                await self._ended.wait_for(lambda: self.are_free(whose))
                self._running[whose] += 1
        except TimeoutError:
            raise web.HTTPTooManyRequests(headers={"Retry-After": "10"}) from None
        try:
            yield
        finally:
            self._running -= Counter([whose])  # also drops people with a count of 0
            async with self._ended:
                self._ended.notify_all()

    def are_free(self, whose: str) -> bool:
        """Return whether the person `whose` would get a slot at once."""
        return self._running[whose] < self._each and self._running.total() < self._overall


class FileSender:
    """Sends files as responses. A server's routes share one instance and thereby its limits."""

    def __init__(self, *, piece_s: float = PIECE_S) -> None:
        self._turns = DownloadSlots()
        self._piece_s = piece_s

    async def send(
        self, request: web.Request, file: Sendable, *, whose: str, headers: Mapping[str, str]
    ) -> web.StreamResponse:
        """Send a file or the requested range, using a slot of the person `whose`.

        `headers` override those that every file has, for example to set the caching.
        """
        about = dict(headers) | {"Accept-Ranges": "bytes", "ETag": f'"{file.tag}"'}
        if any(known.value in {file.tag, "*"} for known in request.if_none_match or ()):
            return web.Response(status=304, headers=about)
        part = _part(request, file)
        response = _response(request, file, about, part)
        try:
            async with self._turns.of(whose):
                await response.prepare(request)
                if request.method != "HEAD":
                    await self._pieces(response, file, part or range(file.size))
        except ConnectionError:
            _log.debug("a reader of %s went away", file.name)
        except _Broken:
            _cut(request)
        return response

    async def _pieces(self, response: web.StreamResponse, file: Sendable, wanted: range) -> None:
        for at in wanted[::PIECE]:
            piece = await file.piece(at, min(PIECE, wanted.stop - at))
            if not piece:  # deleted, so the announced bytes cannot be sent
                raise _Broken
            await self._in_time(response.write(piece))
        await self._in_time(response.write_eof())

    async def _in_time(self, writing: Awaitable[None]) -> None:
        try:
            async with timeout(self._piece_s):
                await writing
        except TimeoutError:
            raise _Broken from None


def _part(request: web.Request, file: Sendable) -> range | None:
    """Return the requested range, or None for the whole file. Raises 416 if the range is empty."""
    asked = request.headers.get("Range")
    unchanged = request.headers.get("If-Range", f'"{file.tag}"') == f'"{file.tag}"'
    if asked is None or not unchanged or request.method != "GET":
        return None
    try:
        wanted = request.http_range
    except ValueError:  # several ranges or another unit; send the whole file
        return None
    part = range(file.size)[wanted]
    if not part:
        raise web.HTTPRequestRangeNotSatisfiable(headers={"Content-Range": f"bytes */{file.size}"})
    return part


def _response(
    request: web.Request, file: Sendable, about: dict[str, str], part: range | None
) -> web.StreamResponse:
    inline = file.mime in INLINE_TYPES and "download" not in request.query
    response = web.StreamResponse(
        status=206 if part is not None else 200,
        headers={
            "Content-Type": file.mime if file.mime in INLINE_TYPES else "application/octet-stream",
            "Content-Disposition": "inline" if inline else _attachment(file.name),
            "Content-Security-Policy": FILE_POLICY,
        }
        | about,
    )
    response.content_length = file.size
    if part is not None:
        response.headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{file.size}"
        response.content_length = len(part)
    return response


def _cut(request: web.Request) -> None:
    """Break the connection, so that the client does not mistake the part for the whole file."""
    if request.transport is not None:
        request.transport.abort()


def _attachment(name: str) -> str:
    return f"attachment; filename*=UTF-8''{quote(bare_name(name), safe='')}"


def bare_name(name: str) -> str:
    """Remove the path and all invisible characters from an untrusted file name."""
    bare = name.replace("\\", "/").rpartition("/")[2]
    printable = "".join(char for char in bare if char.isprintable())
    return printable.strip(". ")[-100:] or "file"
