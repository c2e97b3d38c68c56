"""Retries requests to chats and handles their refusals.

Waits, slows down, backs off, and gives up after a day. Renders nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from bot.core.errors import ChatError, ChatGone, ChatUnavailable, ServedElsewhere, SlowDown
from bot.core.platform import ChatPlatform
from bot.core.queue import Deliveries
from bot.delivery.channels import Channel, Channels
from bot.delivery.rate_limit import pause_s, paused_until
from bot.delivery.records import MessageRecords, Unreachable
from bot.delivery.status_message import StatusMessage
from queueing.core.concurrency import came
from queueing.core.errors import Fenced, StoreError
from queueing.core.ports import Clock

log = logging.getLogger(__name__)

_AWAY_PAUSE_S = 300.0  # the longest backoff while a platform is unreachable, and after a restart
_GONE_PAUSE_S = 3600.0  # the longest backoff for a chat that removed the bot
_GIVE_UP_S = 24 * 3600.0


@dataclass(kw_only=True, eq=False, repr=False)
class DeliveryFailures:
    """Handles failures of messages and channels. Calls `drop` for a message that is given up."""

    deliveries: Deliveries
    records: MessageRecords
    clock: Clock
    channels: Channels
    drop: Callable[[StatusMessage], None]

    def slow_down(self, channel: Channel, message: StatusMessage, slow: SlowDown) -> None:
        """Wait out a penalty, for the whole chat or only for a message too old to edit freely."""
        now = self.clock.now()
        if message.free(channel.rate_limit):
            # Answering a call does not use the chat's budget.
            message.delayed_until = now + slow.retry_after_s
        elif not slow.old_message:
            channel.rate_limit.slow_down(now, slow.retry_after_s)
        elif message.job.state.final:
            message.ref = None  # its result is sent as a new message
        else:
            message.delayed_until = now + slow.retry_after_s

    async def leave_alone(self, channel: Channel, message: StatusMessage, error: ChatError) -> None:
        """Back off exponentially. While a chat is unreachable, probe it with a single message."""
        now = self.clock.now()
        longest_s = _GONE_PAUSE_S if isinstance(error, ChatGone) else _AWAY_PAUSE_S
        pause = channel.unreachable(now, longest_s)
        if not isinstance(error, ChatGone):
            self.channels.failed(message.origin.platform, channel)
        if isinstance(error, ServedElsewhere):
            return  # the process that holds the chat's lease delivers
        log.warning(
            "job %s: chat %s is unreachable, retrying in %.0f s: %s",
            message.job.id,
            message.origin.chat,
            pause,
            error,
        )
        for each in [each for each in channel.messages.values() if each.job.state.final]:
            await self._note_failure(each, now, tries=channel.failures)

    async def try_later(self, message: StatusMessage, error: Exception) -> None:
        """Delay one message, longer with each failure."""
        now = self.clock.now()
        message.failures += 1
        pause = min(pause_s(message.failures), _AWAY_PAUSE_S)
        message.delayed_until = now + pause
        text = "job %s: could not show its message, retrying in %.0f s: %s"
        if isinstance(error, StoreError):
            log.warning(text, message.job.id, pause, error)
        else:
            # Unexpected, so log the traceback.
            log.error(text, message.job.id, pause, error, exc_info=error)
        if message.job.state.final:
            await self._note_failure(message, now)

    async def _note_failure(self, message: StatusMessage, now: float, *, tries: int = 1) -> None:
        """Count a failed delivery, and give up after a day of failures. Never raises."""
        try:
            unreachable = await self.records.note_unreachable(
                message.job.id, now, given_up=False, tries=tries
            )
            if now - unreachable.since <= _GIVE_UP_S or message.dropped:
                return
            await self.records.note_unreachable(message.job.id, now, given_up=True)
            await self.deliveries.acknowledge(message.job)
        except Fenced:
            return  # another process delivers it
        except Exception:
            log.exception("job %s: could not record its failed delivery", message.job.id)
            return
        self.drop(message)
        log.error("job %s: gave up delivering after a day; its result is kept", message.job.id)

    def remember(
        self, messages: Mapping[int, StatusMessage], unreachable: Mapping[int, Unreachable]
    ) -> None:
        """Restore the backoff of an earlier run, so that restarts do not hammer failing chats."""
        now = self.clock.now()
        for job_id, failed in unreachable.items():
            if (message := messages.get(job_id)) is not None:
                channel = self.channels.of(message)
                self.channels.failed(message.origin.platform, channel)
                channel.failures = max(channel.failures, failed.tries)
                until = min(paused_until(failed.since, failed.tries), now + _AWAY_PAUSE_S)
                channel.paused_until = max(channel.paused_until, until)
        self.channels.recall()


T = TypeVar("T")

PATIENCE_S = 60.0  # an answer later than this is useless
_LONGEST_PAUSE_S = 300.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """How a request is made.

    `burst` and `upload` are passed to the channel. A `free` request uses no budget. Without
    `repeat`, a request that may have succeeded is not retried. `patience_s` limits the retries.
    """

    burst: bool = False
    upload: bool = False
    free: bool = False
    repeat: bool = True
    patience_s: float = PATIENCE_S


class ChatRetry:
    """Makes requests to chats, with retries."""

    def __init__(self, platforms: Mapping[str, ChatPlatform], channels: Channels) -> None:
        self._platforms = platforms
        self._channels = channels

    async def ask(
        self, platform: str, chat: str, request: Callable[[], Awaitable[T]], terms: Terms
    ) -> T:
        """Make a request in its turn, retrying while the failure is temporary.

        Raises `ChatError` for a permanent failure, or the last failure when time is up.
        """
        until = self._channels.now() + terms.patience_s
        failures = woken = 0
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
                log.info("%s:%s: retrying in %.0f s: %s", platform, chat, pause, error)
                least_s = min(pause, pause_s(woken)) if woken else 0.0
                woken += await self._channels.pause(platform, least_s, pause)
                await came(self._platforms[platform].connected, until - self._channels.now())

    async def _once(
        self, platform: str, chat: str, request: Callable[[], Awaitable[T]], terms: Terms
    ) -> T:
        if terms.free:
            async with self._channels.free_turn(platform):
                return await request()
        async with self._channels.turn(platform, chat, burst=terms.burst, upload=terms.upload):
            return await request()

    async def _wait_out(self, platform: str, chat: str, slow: SlowDown, terms: Terms) -> None:
        """Wait out a penalty. Unless the request is free, it delays all turns in the chat."""
        if not terms.free:
            self._channels.at(platform, chat).rate_limit.slow_down(
                self._channels.now(), slow.retry_after_s
            )
        await asyncio.sleep(slow.retry_after_s)
