"""Keeps each person's calls in one chat in order, so that they are accepted as they arrived.

A call may need something first: a channel lookup, a download, the rest of an album. Later calls run
in parallel and wait only before they accept something. A call never waits for another person or
another chat.
"""

import asyncio
from collections.abc import Hashable
from typing import Self

from queueing.core.concurrency import timeout

PATIENCE_S = 1.0
"""How long a call that accepts nothing waits for earlier calls."""

_Line = dict["Arrival", None]


class Arrival:
    """A call's place behind earlier calls of the same person in the same chat.

    The owner must settle it however the call ends. Used as a context manager, it settles itself.
    """

    def __init__(self, lines: dict[Hashable, _Line], key: Hashable) -> None:
        self._lines = lines
        self._key = key
        self._line = lines.setdefault(key, {})
        self._line[self] = None
        self.settled = asyncio.Event()

    async def turn(self) -> None:
        """Wait until all earlier calls are settled."""
        while self in self._line and (first := next(iter(self._line))) is not self:
            await first.settled.wait()

    async def turn_soon(self) -> None:
        """Wait like `turn`, but at most `PATIENCE_S`: slow earlier calls may be overtaken."""
        if next(iter(self._line), self) is self:
            return
        try:
            async with timeout(PATIENCE_S):
                await self.turn()
        except TimeoutError:
            return

    def settle(self) -> None:
        """Let later calls proceed: this one is accepted, refused or abandoned. Idempotent."""
        self._line.pop(self, None)
        self.settled.set()
        if not self._line and self._lines.get(self._key) is self._line:
            del self._lines[self._key]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.settle()


class Arrivals:
    """All calls that are not settled."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, _Line] = {}

    def take(self, user: str, chat: str) -> Arrival:
        """Take the last place behind a person's calls in a chat."""
        return Arrival(self._lines, (user, chat))
