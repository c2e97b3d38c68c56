"""The order in which each person's calls arrived in each chat, so that they are accepted in order.

A call may need something first: a channel looked up, a file downloaded, the rest of an album. Calls
behind it proceed meanwhile and wait only before they accept something. A call never waits for
another person or another chat.
"""

import asyncio
from collections.abc import Hashable
from typing import Self

from queueing.core.concurrency import timeout

PATIENCE_S = 1.0
"""How long a call that accepts nothing lets earlier calls go first."""

_Line = dict["Arrival", None]


class Arrival:
    """One call's place behind the earlier calls of its person in its chat.

    Its owner must settle it, however the call ends; as a context manager it does so itself.
    """

    def __init__(self, lines: dict[Hashable, _Line], key: Hashable) -> None:
        self._lines = lines
        self._key = key
        self._line = lines.setdefault(key, {})
        self._line[self] = None
        self.settled = asyncio.Event()

    async def turn(self) -> None:
        """Wait until all calls that arrived earlier are settled."""
        while self in self._line and (first := next(iter(self._line))) is not self:
            await first.settled.wait()

    async def turn_soon(self) -> None:
        """Wait for the turn as `turn` does, but only a moment: slow calls may be passed."""
        if next(iter(self._line), self) is self:
            return
        try:
            async with timeout(PATIENCE_S):
                await self.turn()
        except TimeoutError:
            return

    def settle(self) -> None:
        """Let later calls proceed: this one is accepted, refused or given up. Idempotent."""
        self._line.pop(self, None)
        self.settled.set()
        if not self._line and self._lines.get(self._key) is self._line:
            del self._lines[self._key]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.settle()


class Arrivals:
    """All calls that are not settled yet."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, _Line] = {}

    def take(self, user: str, chat: str) -> Arrival:
        """Return the last place behind a person's calls in a chat."""
        return Arrival(self._lines, (user, chat))
