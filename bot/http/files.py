"""Files over HTTP: in pieces, whole or a range, and no more at once than memory allows.

Owns how a file is sent, to a person of the page as to the holder of a link; who may have it is
decided before. A piece is read when the previous one is on its way, so an unread download holds one
piece, and is ended when that piece does not move.
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
AT_ONCE_EACH = 4  # downloads of one person
AT_ONCE = 64  # downloads of all people
PIECE_S = 30.0  # until a piece is on its way: 9 kB a second, and a slower connection is dead
WAIT_S = 60.0  # for a turn

FILE_POLICY = "default-src 'none'; sandbox"
# Shown or played in the page; anything else is only offered as a download, SVG and HTML above
# all.
INLINE_TYPES = PLAYED | {"image/png", "image/jpeg", "image/webp", "image/gif", "image/avif"}

ReadPiece = Callable[[int, int], Awaitable[bytes | None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sendable:
    """A file to send: its description, and how to read `length` bytes of it from `start`.

    `tag` stays the same as long as the bytes do. `piece` returns None once the file is gone.
    """

    name: str
    mime: str
    size: int
    tag: str
    piece: ReadPiece


def sendable(file: File, *, tag: str) -> Sendable:
    """Return a file in memory as one to send."""

    async def piece(start: int, length: int) -> bytes:
        return file.data[start : start + length]

    return Sendable(name=file.name, mime=file.mime, size=len(file.data), tag=tag, piece=piece)


class _Broken(Exception):
    """A file that cannot be sent completely."""


class DownloadSlots:
    """Limits downloads: a number for each person, and one for everyone together."""

    def __init__(self, *, each: int = AT_ONCE_EACH, overall: int = AT_ONCE) -> None:
        self._each = each
        self._overall = overall
        self._running: Counter[str] = Counter()
        self._ended = asyncio.Condition()

    @asynccontextmanager
    async def of(self, whose: str) -> AsyncIterator[None]:
        """Hold one of `whose` turns; waits for it. Answers 429 if none becomes free."""
        try:
            async with timeout(WAIT_S), self._ended:
                await self._ended.wait_for(lambda: self.are_free(whose))
                self._running[whose] += 1
        except TimeoutError:
            raise web.HTTPTooManyRequests(headers={"Retry-After": "10"}) from None
        try:
            yield
        finally:
            self._running -= Counter([whose])  # drops people without one
            async with self._ended:
                self._ended.notify_all()

    def are_free(self, whose: str) -> bool:
        """Return whether `whose` next turn would come at once."""
        return self._running[whose] < self._each and self._running.total() < self._overall


class FileSender:
    """Answers requests with files. One for all routes of a server, so that they share its limits."""

    def __init__(self, turns: DownloadSlots | None = None, *, piece_s: float = PIECE_S) -> None:
        self._turns = turns or DownloadSlots()
        self._piece_s = piece_s

    async def send(
        self, request: web.Request, file: Sendable, *, whose: str, headers: Mapping[str, str]
    ) -> web.StreamResponse:
        """Send a file, or the requested range; `whose` turn it takes.

        `headers` go before those every file has, and say such things as how long it may be kept.
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
            if not piece:  # deleted meanwhile: the announced bytes cannot be sent
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
    """Return the requested bytes, None for all. Raises 416 if the file has none of them."""
    asked = request.headers.get("Range")
    unchanged = request.headers.get("If-Range", f'"{file.tag}"') == f'"{file.tag}"'
    if asked is None or not unchanged or request.method != "GET":
        return None
    try:
        wanted = request.http_range
    except ValueError:  # several ranges, or another unit: the whole file answers these
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
    """End the connection in the middle: the reader must not take the part for the whole."""
    if request.transport is not None:
        request.transport.abort()


def _attachment(name: str) -> str:
    return f"attachment; filename*=UTF-8''{quote(bare_name(name), safe='')}"


def bare_name(name: str) -> str:
    """Return an untrusted file name without a path and without invisible characters."""
    bare = name.replace("\\", "/").rpartition("/")[2]
    printable = "".join(char for char in bare if char.isprintable())
    return printable.strip(". ")[-100:] or "file"
