"""When a session with Discord may begin: a bot begins only so many in five seconds.

Counted within this process. If another process has begun a session just before, Discord ends the
later one at once ("invalid session"), and discord.py begins it again five seconds later.
"""

import asyncio
import time
from collections.abc import Callable

EVERY_S = 5.0


class Starts:
    """The beginnings of a bot's sessions; `at_once` shards, by their number, may begin together."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.at_once = 1
        self._clock = clock
        self._free_from: dict[int, float] = {}  # by the shard's number within those begun together

    async def turn(self, shard: int) -> None:
        """Wait until this shard's session may begin."""
        await asyncio.sleep(self.reserve(shard))

    def reserve(self, shard: int) -> float:
        """Take the next free moment for a shard's session; return how long it is until then."""
        now, lane = self._clock(), shard % max(1, self.at_once)
        at = max(now, self._free_from.get(lane, now))
        self._free_from[lane] = at + EVERY_S
        return at - now
