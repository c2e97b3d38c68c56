"""Request and response bodies, limited in size, time and memory.

Only requests with a declared content type are read. Each body is limited, but hundreds at once
could still exhaust the memory. When the total is reached, reading pauses, so the client waits.
After a while, the request is rejected. Results are limited too: a call takes a slot before it reads
one, and keeps the slot until its response is sent.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus
from io import BytesIO
from typing import TypeVar

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from pydantic import BaseModel

from bot.api.calls.errors import ApiError, invalid
from bot.http.files import DownloadSlots
from bot.http.unpacking import ENCODINGS, Bomb, UnpackedBody, encoding_of
from queueing.core.bounded_json import VALUES_MOST, TooManyValues, ValueCount, parsed
from queueing.core.concurrency import timeout, timeout_at
from queueing.core.jobs import Job
from queueing.core.requests import Chat

ROOM = 96 * 1024 * 1024  # bytes of all bodies together; processing them takes a multiple of that
A_PERSONS = 64 * 1024 * 1024  # bytes of one person's bodies together
SMALL = 64 * 1024  # bytes; bodies up to this size never wait
COPIES = 3
"""How often a text is in memory until it is stored: the bytes read, its record, the stored form."""
# The most bytes to count for these copies; files are copied one at a time.
COPIES_MOST = 24 * 1024 * 1024
WAIT_S = 20.0


@dataclass(eq=False, slots=True)
class HeldBody:
    """Counts the bytes in memory for one request's body."""

    room: "BodyMemory"
    person: str
    size: int = 0


_BODY: web.RequestKey[HeldBody] = web.RequestKey("body")


class BodyMemory:
    """Counts the bytes of all bodies and their copies, until they are stored or rejected."""

    def __init__(self) -> None:
        self._large: dict[HeldBody, None] = {}  # the oldest comes first
        self._bytes = 0
        self._of_people: Counter[str] = Counter()
        self._waiting: set[asyncio.Event] = set()

    @contextmanager
    def of(self, request: web.Request, person: str) -> Iterator[None]:
        """Count the body of a person's request until it is released or the block ends."""
        request[_BODY] = HeldBody(self, person)
        try:
            yield
        finally:
            release(request)

    async def grow(self, body: HeldBody, size: int) -> None:
        """Count more bytes of a body, then wait until there is room for the next ones.

        Raises `ApiError` (503) if that takes too long. The oldest body of all never waits. While
        the total is within its limit, each person's oldest body does not wait either. So some body
        can always be completed.
        """
        body.size += size
        self._count(body, size)
        if body.size <= SMALL:
            return
        self._large[body] = None
        if not self._fits(body):
            await self._until_fits(body)

    def release(self, body: HeldBody) -> None:
        """Stop counting a body. Idempotent."""
        self._large.pop(body, None)
        self._count(body, -body.size)
        body.size = 0
        for each in self._waiting:
            each.set()

    def _count(self, body: HeldBody, size: int) -> None:
        self._bytes += size
        self._of_people[body.person] += size
        if not self._of_people[body.person]:
            del self._of_people[body.person]

    def _fits(self, body: HeldBody) -> bool:
        if self._bytes > ROOM and body is not next(iter(self._large)):
            return False
        oldest = next(each for each in self._large if each.person == body.person)
        return self._of_people[body.person] <= A_PERSONS or body is oldest

    async def _until_fits(self, body: HeldBody) -> None:
        changed = asyncio.Event()
        self._waiting.add(changed)
        try:
            with suppress(TimeoutError):
                async with timeout(WAIT_S):
                    while not self._fits(body):
                        changed.clear()
                        await changed.wait()
                    return
        finally:
            self._waiting.discard(changed)
        raise _crowded()


async def make_room(request: web.Request, size: int) -> None:
    """Count more bytes of a request's body. Raises `ApiError` (503)."""
    if (body := request.get(_BODY)) is not None:
        await body.room.grow(body, size)


async def make_room_for_record(request: web.Request, size: int) -> None:
    """Count the copies of a text of this size until it is stored. Raises `ApiError` (503)."""
    if size > SMALL:
        await make_room(request, min(COPIES * size, COPIES_MOST))


def release(request: web.Request) -> None:
    """Stop counting a request's body, because it is stored. Idempotent."""
    if (body := request.get(_BODY)) is not None:
        body.room.release(body)


def _crowded() -> ApiError:
    return ApiError(
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        message="Too many large requests are being read at once.",
        code="crowded",
        retry_after_s=5.0,
    )


T = TypeVar("T")

BODY_LIMIT = 64 * 1024 * 1024  # bytes; enough for several images in base64
WORDS_LIMIT = 8 * 1024 * 1024  # bytes of JSON without files
LINES_MOST = (
    2_000  # that are read line by line: the headers of 64 parts, and the text before the first
)
LINE_BYTES_MOST = 256 * 1024
SILENT_S = 30.0  # until the next byte
WHOLE_S = 600.0  # until the last byte: 64 MB at 1 Mbit/s
PIECE = 64 * 1024


class Body:
    """The body of a request, read piece by piece. Bytes can be put back.

    Every reading method raises `ApiError`: 413 for more than `limit` bytes, 408 if the body stops
    or takes too long, 400 if its encoding is broken or it has too many lines, and 503 if other
    bodies leave no memory. Each read lets other tasks run, because aiohttp returns data that has
    arrived without a pause. aiohttp's multipart reader uses this object as a `StreamReader`.
    """

    def __init__(self, request: web.Request, limit: int = BODY_LIMIT) -> None:
        """Prepare to read a request.

        Raises `ApiError` if its encoding or announced size is not allowed.
        """
        if (encoding := encoding_of(request)) not in ENCODINGS:
            raise _encoded()
        if (request.content_length or 0) > limit:
            raise _too_large(limit)
        self._request = request
        plain = request.content
        self._content = UnpackedBody(plain, encoding) if encoding else plain
        self._limit = limit
        self._back = b""
        self._lines = LINES_MOST
        self._line_bytes = LINE_BYTES_MOST
        self._ends = asyncio.get_running_loop().time() + WHOLE_S

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the whole body."""
        while piece := await self.read(PIECE):
            yield piece

    async def read(self, size: int) -> bytes:
        """Return at most `size` bytes, or b"" at the end."""
        if self._back:
            piece, self._back = self._back[:size], self._back[size:]
            return piece
        if self._content.at_eof():  # aiohttp logs a stack trace for reads after the end
            return b""
        return await self._bounded(self._content.read(size))

    async def readline(self, *, max_line_length: int | None = None) -> bytes:
        """Return a line including its newline, or b"" at the end.

        Raises `BadHttpMessage` if too long.
        """
        line, end, self._back = self._back.partition(b"\n")
        line += end
        if not end:
            line += await self._bounded(self._content.readline(max_line_length=max_line_length))
        self._lines -= 1
        self._line_bytes -= len(line)
        if min(self._lines, self._line_bytes) < 0:
            raise broken()
        return line

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
            raise _too_slow() from None
        except web.RequestPayloadError:
            raise broken() from None
        except Bomb:
            raise _bomb() from None
        if self._content.total_bytes > self._limit:  # the Content-Length header may be missing
            raise _too_large(self._limit)
        await make_room(self._request, len(piece))
        await asyncio.sleep(0)
        return piece


def _too_large(limit: int) -> ApiError:
    return ApiError(
        status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        message=f"The body of this request must not exceed {limit // 1024 // 1024} MB.",
    )


def too_many_values(error: TooManyValues) -> ApiError:
    """Return the error for JSON with too many values, or with an overlong number."""
    return invalid(f"The JSON of this request {error.refusal}.")


async def json_body(
    request: web.Request,
    parse: Callable[[bytes], T],
    *,
    limit: int = WORDS_LIMIT,
    values: int = VALUES_MOST,
) -> T:
    """Read a JSON request body and return the result of `parse`.

    Raises `ApiError`, and the errors of `parse`. The content type must be JSON: a form on any web
    page can post `text/plain` or multipart without a CORS preflight.
    """
    if request.content_type != "application/json":
        raise ApiError(
            status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            message="The body must be JSON, with “Content-Type: application/json”.",
        )
    whole, count = BytesIO(), ValueCount(values)
    try:
        async for piece in Body(request, limit).pieces():
            count.add(piece)
            whole.write(piece)
    except TooManyValues as error:
        raise too_many_values(error) from None
    await make_room_for_record(request, whole.tell())
    return await parsed(parse, whole.getvalue())  # the buffer itself, not a copy


def _too_slow() -> ApiError:
    return ApiError(
        status=HTTPStatus.REQUEST_TIMEOUT, message="The body of the request did not arrive in time."
    )


def _encoded() -> ApiError:
    return ApiError(
        status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        message="The body of a request may only be encoded with gzip or deflate.",
    )


def _bomb() -> ApiError:
    return ApiError(
        status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        message="The body of the request expands too much. Send it uncompressed.",
    )


def broken() -> ApiError:
    """Return the error for a body that does not match its headers."""
    return invalid("The body of the request is broken or incomplete.")


def json_response(
    record: BaseModel,
    *,
    status: HTTPStatus = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """Build a response with a record as JSON."""
    return web.Response(
        text=record.model_dump_json(),
        content_type="application/json",
        status=status,
        headers=headers,
    )


RESPONSE_PIECE = 256 * 1024  # bytes


class LargeBody(Payload):
    """A payload that is sent without a copy. aiohttp would copy the whole body at least once."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._size = len(data)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text."""
        return str(self._value, encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send the body in pieces, each one after most of the earlier ones were sent."""
        data = memoryview(self._value)
        for at in range(0, len(data), RESPONSE_PIECE):
            await writer.write(data[at : at + RESPONSE_PIECE])
            await asyncio.sleep(0)


def body_of(data: bytes) -> bytes | LargeBody:
    """Wrap data in a `LargeBody` if it is large."""
    return data if len(data) <= RESPONSE_PIECE else LargeBody(data)


_HELD: ContextVar[AsyncExitStack | None] = ContextVar("held", default=None)


@asynccontextmanager
async def until_sent() -> AsyncIterator[None]:
    """Keep the slots taken with `take_turn` until the response has been sent."""
    async with AsyncExitStack() as held:
        token = _HELD.set(held)
        try:
            yield
        finally:
            _HELD.reset(token)


async def take_turn(turns: DownloadSlots, job: Job) -> None:
    """Wait for a slot to hold another of the person's results in memory. Raises `ApiError` (429).

    Text answers are small and need no slot.
    """
    held = _HELD.get()
    if held is None or isinstance(job.request, Chat):
        return
    try:
        await held.enter_async_context(turns.of(job.owner))
    except web.HTTPTooManyRequests:
        raise unread() from None


def unread() -> ApiError:
    """Return the error for a person who does not read the results that are being sent."""
    return ApiError(
        status=HTTPStatus.TOO_MANY_REQUESTS,
        message="Too many of your results are waiting to be read.",
        code="unread",
        retry_after_s=10.0,
    )
