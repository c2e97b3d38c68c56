"""A Bot API in virtual time that only hands out updates."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from telegram import Bot, Update

from bot.core.arrivals import Arrival, Arrivals
from bot.platforms.telegram.updates import Updates
from queueing.core.concurrency import TaskGroup


class PolledUpdates:
    """A Bot API that hands out updates as they come, again and again until they are confirmed.

    `durable` are the messages whose request is safe, `served` those that were handed on together.
    """

    def __init__(self, coming: Sequence[tuple[float, Update]]) -> None:
        self._coming = coming
        self.durable: set[int] = set()
        self.served: list[tuple[int, ...]] = []
        self.confirmed = 0
        self._arrivals = Arrivals()

    async def get_updates(self, *, offset: int | None, timeout: float, **_: Any) -> list[Update]:  # noqa: ASYNC109
        now = asyncio.get_running_loop().time
        if offset is not None:
            assert set(range(1, offset)) <= self.durable, "was confirmed and could still be lost"
            self.confirmed = max(self.confirmed, offset - 1)
        until = now() + timeout
        while not (there := self._there(now())) and now() < until:  # noqa: ASYNC110  virtual time
            await asyncio.sleep(0.25)
        return there

    def _there(self, now: float) -> list[Update]:
        return [
            update for at, update in self._coming if at <= now and update.update_id > self.confirmed
        ]

    def arrived(self, update: Update) -> Arrival:
        return self._arrivals.take("telegram:7", "7")

    async def serve(self, updates: Sequence[Update], arrival: Arrival) -> None:
        await asyncio.sleep(0.3)  # until it is in the database
        numbers = tuple(update.update_id for update in updates)
        self.durable |= set(numbers)
        self.served.append(numbers)

    async def live(self, seconds: float, *, in_groups: bool = False) -> None:
        """Receive for this long, then die without another word."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), TaskGroup() as tasks:
                bot = cast("Bot", self)
                updates = Updates(bot, self.arrived, self.serve, tasks, in_groups=in_groups)
                await updates.receive()
