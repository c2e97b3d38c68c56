"""Repeats a request to a chat until it succeeds, within the chat's budget and while it is useful."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from bot.core.errors import ChatUnavailable, SlowDown
from bot.core.platform import ChatPlatform
from bot.delivery.channels import Channels, pause_s, wait

log = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE_S = 60.0  # a later answer is of no use
_LONGEST_PAUSE_S = 300.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """How a request is made.

    `burst` and `upload` are passed to the channel; a `free` one uses no budget. Without `repeat`, a
    request that may have been carried out is not repeated. `patience_s` is how long it is tried.
    """

    burst: bool = False
    upload: bool = False
    free: bool = False
    repeat: bool = True
    patience_s: float = PATIENCE_S


class Patience:
    """One for all platforms."""

    def __init__(self, platforms: Mapping[str, ChatPlatform], channels: Channels) -> None:
        self._platforms = platforms
        self._channels = channels

    async def ask(
        self, platform: str, chat: str, request: Callable[[], Awaitable[T]], terms: Terms
    ) -> T:
        """Make a request when it is its turn, and retry while the failure is temporary.

        Raises `ChatError`: one that no repetition helps against, or the last when time is up.
        """
        until = self._channels.now() + terms.patience_s
        failures = 0
        while True:
            try:
                return await self._once(platform, chat, request, terms)
            except SlowDown as slow:
                if slow.old_message or self._channels.now() + slow.retry_after_s > until:
                    raise
                log.info("%s:%s: %s", platform, chat, slow)
                await self._wait_out(platform, chat, slow, terms)
            except ChatUnavailable as error:
                failures += 1
                pause = min(pause_s(failures), _LONGEST_PAUSE_S)
                if (error.unclear and not terms.repeat) or self._channels.now() + pause > until:
                    raise
                log.info("%s:%s: again in %.0f s: %s", platform, chat, pause, error)
                await asyncio.sleep(pause)
                await wait(self._platforms[platform].connected, until - self._channels.now())

    async def _once(
        self, platform: str, chat: str, request: Callable[[], Awaitable[T]], terms: Terms
    ) -> T:
        if terms.free:
            return await request()
        async with self._channels.turn(platform, chat, burst=terms.burst, upload=terms.upload):
            return await request()

    async def _wait_out(self, platform: str, chat: str, slow: SlowDown, terms: Terms) -> None:
        """Wait out a penalty; a chat's penalty holds back every turn there."""
        if not terms.free:
            self._channels.at(platform, chat).rate_limit.slow_down(
                self._channels.now(), slow.retry_after_s
            )
        await asyncio.sleep(slow.retry_after_s)
