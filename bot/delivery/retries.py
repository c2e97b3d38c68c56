"""How a request to a chat is repeated, and what a refusal of the chat means.

Wait, slow down, back off, give up after a day. Renders nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from bot.core.errors import ChatError, ChatGone, ChatUnavailable, ServedElsewhere, SlowDown
from bot.core.platform import ChatPlatform
from bot.core.queue import Deliveries
from bot.delivery.channels import Channel, Channels, pause_s, paused_until, wait
from bot.delivery.records import MessageRecords, Unreachable
from bot.delivery.status_message import StatusMessage
from queueing.core.errors import Fenced, StoreError
from queueing.core.ports import Clock

log = logging.getLogger(__name__)

_AWAY_PAUSE_S = 300.0  # the longest between two tries while a platform is away, or after a restart
_GONE_PAUSE_S = 3600.0  # and in a chat that expelled the bot
_GIVE_UP_S = 24 * 3600.0


class DeliveryFailures:
    """Reacts to failures of messages and channels; `drop` removes a message that is given up."""

    def __init__(
        self,
        *,
        deliveries: Deliveries,
        records: MessageRecords,
        clock: Clock,
        channels: Channels,
        drop: Callable[[StatusMessage], None],
    ) -> None:
        self._deliveries = deliveries
        self._records = records
        self._clock = clock
        self._channels = channels
        self._drop = drop

    def slow_down(self, channel: Channel, message: StatusMessage, slow: SlowDown) -> None:
        """Wait out a penalty: the whole chat, or only a message that is too old."""
        now = self._clock.now()
        if message.free(channel.rate_limit):
            message.delayed_until = (
                now + slow.retry_after_s
            )  # the answer to a call uses no chat's budget
        elif not slow.old_message:
            channel.rate_limit.slow_down(now, slow.retry_after_s)
        elif message.job.state.final:
            message.ref = None  # its end comes as a fresh message
        else:
            message.delayed_until = now + slow.retry_after_s

    async def leave_alone(self, channel: Channel, message: StatusMessage, error: ChatError) -> None:
        """Back off exponentially; while a chat is unreachable, probe it with a single message."""
        now = self._clock.now()
        longest_s = _GONE_PAUSE_S if isinstance(error, ChatGone) else _AWAY_PAUSE_S
        pause = channel.unreachable(now, longest_s)
        if isinstance(error, ServedElsewhere):
            return  # its holder delivers
        log.warning(
            "job %s: chat %s not reached, again in %.0f s: %s",
            message.job.id,
            message.origin.chat,
            pause,
            error,
        )
        for each in [each for each in channel.messages.values() if each.job.state.final]:
            await self._note_failure(each, now, tries=channel.failures)

    async def try_later(self, message: StatusMessage, error: Exception) -> None:
        """Pause one message, longer each time."""
        now = self._clock.now()
        message.failures += 1
        pause = min(pause_s(message.failures), _AWAY_PAUSE_S)
        message.delayed_until = now + pause
        text = "job %s: its message could not be shown, again in %.0f s: %s"
        if isinstance(error, StoreError):
            log.warning(text, message.job.id, pause, error)
        else:
            log.error(text, message.job.id, pause, error, exc_info=error)  # a bug
        if message.job.state.final:
            await self._note_failure(message, now)

    async def _note_failure(self, message: StatusMessage, now: float, *, tries: int = 1) -> None:
        """Count a failed delivery; after a day of them, give up. Never raises."""
        try:
            unreachable = await self._records.note_unreachable(
                message.job.id, now, given_up=False, tries=tries
            )
            if now - unreachable.since <= _GIVE_UP_S or message.dropped:
                return
            await self._records.note_unreachable(message.job.id, now, given_up=True)
            await self._deliveries.acknowledge(message.job)
        except Fenced:
            return  # another process delivers now
        except Exception:
            log.exception("job %s: its failed delivery was not noted", message.job.id)
            return
        self._drop(message)
        log.error("job %s: undeliverable after a day; its result is kept", message.job.id)

    def remember(
        self, messages: Mapping[int, StatusMessage], unreachable: Mapping[int, Unreachable]
    ) -> None:
        """Resume an earlier run's pauses: a restart neither hammers a chat nor forgets it."""
        now = self._clock.now()
        for job_id, failed in unreachable.items():
            if (message := messages.get(job_id)) is not None:
                channel = self._channels.of(message)
                channel.failures = max(channel.failures, failed.tries)
                until = min(paused_until(failed.since, failed.tries), now + _AWAY_PAUSE_S)
                channel.paused_until = max(channel.paused_until, until)


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


class ChatRetry:
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
