"""Confirms calls before doing anything else for them while the process cannot keep up.

Discord requires a first answer within three seconds. A process that is behind would do the work of
earlier calls while later ones expire.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import discord

from queueing.core.concurrency import timeout

BEHIND_S = 0.5  # a call that is read this late is confirmed first
AT_ONCE = 8  # calls that are then worked on together
PATIENCE_S = 5.0  # a call that waits for longer goes on; it may be what the others wait for
_REMEMBERED = 200
_WRONG_S = 60.0


class Rush:
    """Measures how late calls are read, and orders the work on them if that is too late.

    Discord's clock and ours differ, so each delay is measured from the shortest of the last ones.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._offsets: deque[float] = deque(maxlen=_REMEMBERED)
        self._places = asyncio.Semaphore(AT_ONCE)
        self._confirming = 0
        self._confirmed = asyncio.Event()

    def delay_s(self, interaction: "discord.Interaction[Any]") -> float:
        """Return how many seconds ago an interaction was made."""
        offset = self._clock() - interaction.created_at.timestamp()
        self._offsets.append(offset)
        delay_s = offset - min(self._offsets)
        return delay_s if delay_s < _WRONG_S else 0.0  # a clock was set

    @asynccontextmanager
    async def turn(
        self, late_s: float, confirm: Callable[[], Awaitable[object]], *, opens: bool
    ) -> AsyncIterator[None]:
        """Work on a call inside the block; if it is late, confirm it and let others confirm first.

        A call that `opens` a form cannot be confirmed before that.
        """
        if late_s <= BEHIND_S or opens:
            yield
            return
        await self._confirm(confirm)
        placed = await self._take_place()
        try:
            yield
        finally:
            if placed:
                self._places.release()

    async def _confirm(self, confirm: Callable[[], Awaitable[object]]) -> None:
        self._confirming += 1
        self._confirmed.clear()
        try:
            await confirm()
        finally:
            self._confirming -= 1
            if not self._confirming:
                self._confirmed.set()

    async def _take_place(self) -> bool:
        """Wait until no call is being confirmed and few are worked on. False after a timeout."""
        try:
            async with timeout(PATIENCE_S):
                await self._confirmed.wait()
                await self._places.acquire()
        except TimeoutError:
            return False
        return True
