"""Limits what reading one answer takes of the event loop, so that a flood costs nobody else time."""

import asyncio
from collections.abc import Callable, Iterator

TURN_S = 0.002
"""How long lines are read before others have their turn."""


class LoopShare:
    """The time one answer has used: at most half of what passed since its last pause."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = clock()
        self._used = 0.0

    def fill(self, feed: Callable[[str], bool], lines: Iterator[str]) -> tuple[bool, bool]:
        """Feed lines for one turn; return whether one was progress, and whether all are read."""
        began, progress = self._clock(), False
        for line in lines:
            progress |= feed(line)
            if self._clock() - began >= TURN_S:
                self._used += self._clock() - began
                return progress, False
        self._used += self._clock() - began
        return progress, True

    async def pause(self) -> None:
        """After a turn, wait as long as this answer has been read since it last waited."""
        if self._used < TURN_S:
            return
        idle = self._clock() - self._since - self._used
        await asyncio.sleep(max(0.0, self._used - idle))
        self._since, self._used = self._clock(), 0.0
