"""Reads the bodies of requests: of limited size, in limited time, and only of a declared kind."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from http import HTTPStatus

from aiohttp import web

from bot.gateway.body_room import make_room
from bot.gateway.errors import ApiError, invalid
from queueing.core.concurrency import timeout_at

BODY_LIMIT = 64 * 1024 * 1024  # bytes; enough for several pictures in base64
SILENT_S = 30.0  # until the next byte
WHOLE_S = 600.0  # until the last one: 64 MB at 1 Mbit/s
PIECE = 64 * 1024
TOO_SLOW = ApiError(
    status=HTTPStatus.REQUEST_TIMEOUT, message="The body of the request did not arrive in time."
)
ENCODINGS = frozenset({"identity", "gzip", "deflate"})
ENCODED = ApiError(
    status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    message="The body of a request may be encoded with gzip or deflate only.",
)
BROKEN = invalid("The body of the request is broken or incomplete.")


class Body:
    """The body of a request, read piece by piece; bytes can be put back.

    Every method that reads raises `ApiError`: 413 beyond `limit` bytes, 408 if the body stops or
    takes too long, 400 if it is not encoded as its headers say, and 503 while other bodies take all
    the room. aiohttp's multipart reader reads from it as from a `StreamReader`.
    """

    def __init__(self, request: web.Request, limit: int = BODY_LIMIT) -> None:
        """Take a request. Raises `ApiError` if the body it announces is not taken."""
        if request.headers.get("Content-Encoding", "identity").casefold() not in ENCODINGS:
            raise ENCODED
        if (request.content_length or 0) > limit:
            raise _too_large(limit)
        self._request = request
        self._content = request.content
        self._limit = limit
        self._back = b""
        self._ends = asyncio.get_running_loop().time() + WHOLE_S

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the whole body."""
        while piece := await self.read(PIECE):
            yield piece

    async def read(self, size: int) -> bytes:
        """Return at most `size` bytes, b"" at the end."""
        if self._back:
            piece, self._back = self._back[:size], self._back[size:]
            return piece
        if self._content.at_eof():  # aiohttp logs the stack of further reads
            return b""
        return await self._bounded(self._content.read(size))

    async def readline(self, *, max_line_length: int | None = None) -> bytes:
        """Return a line with its end, b"" at the end of the body; `BadHttpMessage` if too long."""
        line, end, rest = self._back.partition(b"\n")
        self._back = rest
        if end:
            return line + end
        further = self._content.readline(max_line_length=max_line_length)
        return line + await self._bounded(further)

    def at_eof(self) -> bool:
        """Return whether the whole body has been read."""
        return not self._back and self._content.at_eof()

    def unread_data(self, data: bytes) -> None:
        """Put bytes back, to be read again."""
        self._back = data + self._back

    async def _bounded(self, reading: Awaitable[bytes]) -> bytes:
        until = min(asyncio.get_running_loop().time() + SILENT_S, self._ends)
        try:
            async with timeout_at(until):
                piece = await reading
        except TimeoutError:
            raise TOO_SLOW from None
        except web.RequestPayloadError:
            raise BROKEN from None
        if self._content.total_bytes > self._limit:  # the Content-Length header may be missing
            raise _too_large(self._limit)
        await make_room(self._request, len(piece))
        return piece


def _too_large(limit: int) -> ApiError:
    return ApiError(
        status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        message=f"The body of this request must not exceed {limit // 1024 // 1024} MB.",
    )


async def json_body(request: web.Request, limit: int = BODY_LIMIT) -> bytes:
    """Return the body of a request that is declared as JSON. Raises `ApiError`.

    A form on any web page can post `text/plain` or multipart without a CORS preflight.
    """
    if request.content_type != "application/json":
        raise ApiError(
            status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            message="The body must be JSON, with “Content-Type: application/json”.",
        )
    data = bytearray()
    async for piece in Body(request, limit).pieces():
        data += piece
    return bytes(data)
