"""Bounds the memory that the bodies of all requests take together.

Each body alone is bounded; hundreds at once would still fill the machine. A body that finds no room
is not read on until there is some, so that its client waits; after a while it is refused.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from bot.api.calls.errors import ApiError
from queueing.core.concurrency import timeout

ROOM = 96 * 1024 * 1024  # bytes of all bodies; working on them takes a multiple
A_PERSONS = 64 * 1024 * 1024  # bytes of one person's bodies
SMALL = 64 * 1024  # bytes; such a body never waits
COPIES = 3
"""How often a text is in memory until it is stored: what was read, its record, the stored form."""
COPIES_MOST = 24 * 1024 * 1024  # bytes counted for them; files are copied one at a time
WAIT_S = 20.0


@dataclass(eq=False, slots=True)
class HeldBody:
    """How many bytes of a person's request are in memory."""

    room: "BodyRoom"
    person: str
    size: int = 0


_BODY: web.RequestKey[HeldBody] = web.RequestKey("body")


class BodyRoom:
    """Counts the bytes of all bodies, and of what is made of them, until they are stored or refused."""

    def __init__(self) -> None:
        self._large: dict[HeldBody, None] = {}  # oldest first
        self._bytes = 0
        self._of_people: Counter[str] = Counter()
        self._waiting: set[asyncio.Event] = set()

    @contextmanager
    def of(self, request: web.Request, person: str) -> Iterator[None]:
        """Count the body of a person's request until it is released, at the latest at the end."""
        request[_BODY] = HeldBody(self, person)
        try:
            yield
        finally:
            release(request)

    async def grow(self, body: HeldBody, size: int) -> None:
        """Count further bytes of a body, and wait until there is room for more of it.

        Raises `ApiError`, a 503, if there is none for too long. The oldest body of all and each
        person's oldest within the whole are always read on, so that some body is completed.
        """
        body.size += size
        self._count(body, size)
        if body.size <= SMALL:
            return
        self._large[body] = None
        if not self._fits(body):
            await self._until_fits(body)

    def release(self, body: HeldBody) -> None:
        """Forget a body. Idempotent."""
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
    """Count further bytes of a request's body. Raises `ApiError`, a 503."""
    if (body := request.get(_BODY)) is not None:
        await body.room.grow(body, size)


async def make_room_for_record(request: web.Request, size: int) -> None:
    """Count what is made of a text until it is stored. Raises `ApiError`, a 503."""
    if size > SMALL:
        await make_room(request, min(COPIES * size, COPIES_MOST))


def release(request: web.Request) -> None:
    """Forget the body of a request, because it is stored. Idempotent."""
    if (body := request.get(_BODY)) is not None:
        body.room.release(body)


def _crowded() -> ApiError:
    return ApiError(
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        message="Too many large requests are being read at once.",
        code="crowded",
        retry_after_s=5.0,
    )
