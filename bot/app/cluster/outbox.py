"""The frames that wait to be sent over a wire: put without waiting, sent in order by one task."""

import asyncio
from collections import deque
from collections.abc import Callable

from bot.app.cluster.wire import Wire, WireBroken

PUSHED_LIMIT = 64_000_000
"""Bytes of events and copies that wait for one slow reader; with more, its connection ends."""
ANSWERED_LIMIT = 64_000_000
"""Bytes of answers that wait for one slow reader; with more, further calls wait with their answers."""


def _always() -> None:
    """Allow every frame."""


class Outbox:
    """What goes out over one wire; `check` raises `WireBroken` if nothing may be sent any more."""

    def __init__(self, wire: Wire, check: Callable[[], None] = _always) -> None:
        self._wire = wire
        self._check = check
        self._waiting: deque[tuple[bytes, bool]] = deque()
        self._answered = 0
        self._pushed = 0
        self._ended: str | None = None
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def put(self, frame: bytes) -> None:
        """Send a call or an answer after what was put before."""
        self._add(frame, pushed=False)
        if self._answered > ANSWERED_LIMIT:
            self._room.clear()

    def push(self, frame: bytes) -> None:
        """Send what the other end did not ask for; if it takes too little of it, the wire ends."""
        if self._pushed > PUSHED_LIMIT:
            self.end("it reads too slowly")
        else:
            self._add(frame, pushed=True)

    def end(self, why: str) -> None:
        """Send nothing more: `run` raises `WireBroken`."""
        self._ended = self._ended or why
        self._waiting.clear()
        self._news.set()

    async def room(self) -> None:
        """Wait while too much of what was asked for is unsent."""
        await self._room.wait()

    async def run(self) -> None:
        """Send what is put in until cancelled. Raises `WireBroken`."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                self._check()
                frame, pushed = self._waiting.popleft()
                await self._wire.send(frame)
                self._sent(len(frame), pushed=pushed)
            if self._ended is not None:
                raise WireBroken(self._ended)

    def _add(self, frame: bytes, *, pushed: bool) -> None:
        if self._ended is None:
            self._waiting.append((frame, pushed))
            self._count(len(frame), pushed=pushed)
            self._news.set()

    def _sent(self, size: int, *, pushed: bool) -> None:
        self._count(-size, pushed=pushed)
        if self._answered <= ANSWERED_LIMIT:
            self._room.set()

    def _count(self, size: int, *, pushed: bool) -> None:
        if pushed:
            self._pushed += size
        else:
            self._answered += size
