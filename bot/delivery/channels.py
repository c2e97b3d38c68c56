"""One chat as delivery sees it: its messages, its rate limit, and whether it is reachable.

Chooses which of a chat's messages to serve next, and when. Sends nothing itself.
"""

import asyncio
import math
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bot.core.errors import ChatError, ChatUnavailable
from bot.core.platform import ChatPlatform
from bot.delivery.rate_limit import PlatformRateLimit, RateLimit, pause_s
from bot.delivery.status_message import StatusMessage
from queueing.core.concurrency import came
from queueing.core.ports import Clock

CROWDED_S = 4.0  # minimum time between two edits of one message
_RESERVED_S = 60.0  # a job that ends within this time has budget reserved for its result
_SOON_S = 15.0  # a job that ends within this time may need no first message
_PING_ALONE_S = 15.0  # this long before its latest moment, a ping waits for no more results
_MOST = 1000  # number of channels above which idle ones are dropped


@dataclass(eq=False, kw_only=True, slots=True)
class Channel:
    """The messages of one chat and the budget they share.

    An unreachable chat is probed with one message at a time, with exponential backoff. If the whole
    platform was `away`, its first success ends the backoff. `line` is a FIFO lock for everything
    sent to the chat.
    """

    rate_limit: RateLimit
    messages: dict[int, StatusMessage] = field(default_factory=dict)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    line: asyncio.Lock = field(default_factory=asyncio.Lock)
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    served: bool = False
    failures: int = 0
    paused_until: float = 0.0
    away: bool = False
    woken: int = 0
    woken_at: float = -math.inf
    drafts: bool = True  # it has refused none

    @property
    def crowded(self) -> bool:
        """Whether the chat has so many messages that each can be edited only rarely."""
        return self.rate_limit.turn_s(len(self.messages)) >= CROWDED_S

    def edits_rarely(self, position: int | None) -> bool:
        """Return whether a job at that position is updated too rarely to show its position."""
        return self.crowded or self.rate_limit.lags(position)

    def next_message(self, now: float, crowd: int) -> tuple[StatusMessage, float] | None:
        """Return the next message to serve and when, or None if every message is up to date.

        `crowd` is the number of open jobs in all chats.
        """
        turn_s = self.rate_limit.turn_s(len(self.messages))
        ending = self._ending(now)
        waiting = [
            (message, self._due(message, now, turn_s, crowd, ending))
            for message in self.messages.values()
            if message.out_of_date
        ]
        if not waiting:
            return None
        due_now = [message for message, at in waiting if at <= now]
        if due_now:
            return min(due_now, key=lambda message: message.urgency(self.rate_limit, crowd)), now
        return min(waiting, key=lambda each: each[1])

    def _due(
        self, message: StatusMessage, now: float, turn_s: float, crowd: int, ending: Sequence[int]
    ) -> float:
        """Return when a message may be served.

        A first one leaves room for the results of earlier requests. A ping waits for any result,
        and for a while for those that its person expects at once, so that one announces them all.
        """
        if message.ping_by is not None:
            if any(each.ready for each in self.messages.values()):
                return message.ping_by
            alone_at = message.ping_by - _PING_ALONE_S
            if now < alone_at and self._goes_on(message, message.ping_by):
                return alone_at
        before = bisect_left(ending, message.job.id) if message.first else len(ending)
        return max(self.paused_until, message.due(now, self.rate_limit, turn_s, crowd, before))

    def _goes_on(self, message: StatusMessage, by: float) -> bool:
        """Return whether more results of the message's person may come by then."""
        return any(
            each.origin.user == message.origin.user and each.ends_by(by)
            for each in self.messages.values()
        )

    def _ending(self, now: float) -> Sequence[int]:
        """Return the ids of the jobs whose ends may have to be shown within the next minute."""
        by = now + _RESERVED_S
        return sorted(each.job.id for each in self.messages.values() if each.ends_by(by))

    def ending(self, now: float) -> int:
        """Return how many ends may have to be shown within the next minute."""
        return len(self._ending(now))

    def _is_short(self, now: float) -> bool:
        """Return whether the results of the next minute leave no room for news soon."""
        room_at = self.rate_limit.earliest(now, urgent=False, soon=True, ending=self.ending(now))
        return room_at > now + CROWDED_S

    def awaits_end(self, message: StatusMessage, now: float) -> bool:
        """Return whether a first message would only take the place of a result.

        That is so if the chat is short of requests and the job will end before its turn comes.
        """
        if not message.first or message.ends is None or not self._is_short(now):
            return False
        turn_s = min(self.rate_limit.turn_s(len(self.messages)), _SOON_S)
        return now < message.ends.latest <= now + turn_s

    def gives_way(self, message: StatusMessage, now: float) -> bool:
        """Return whether a result is ready that comes before this message."""
        return any(
            each.ready
            and each.delayed_until <= now
            and (not message.job.state.final or each.job.id < message.job.id)
            for each in self.messages.values()
            if each is not message
        )

    def pings_with(self, message: StatusMessage) -> Sequence[StatusMessage]:
        """Return the messages that owe a ping to the person of this one."""
        return [
            each
            for each in self.messages.values()
            if each.ping_by is not None and each.origin.user == message.origin.user
        ]

    def unreachable(self, now: float, longest_s: float) -> float:
        """Record one more failure and return the pause before the next try, in seconds."""
        self.failures += 1
        pause = min(pause_s(self.failures), longest_s)
        self.paused_until = now + pause
        return pause

    def reached(self) -> None:
        """Record that the chat was reached, and clear its backoff."""
        self.failures, self.paused_until = 0, 0.0
        self.away, self.woken = False, 0

    @property
    def oldest(self) -> float:
        """The id of the oldest job whose end is to be shown; infinite without one."""
        return min((each.job.id for each in self.messages.values() if each.ready), default=math.inf)

    def platform_answered(self, now: float) -> None:
        """Retry the chat at once after an outage, and less often after each failure."""
        if self.away and now >= self.woken_at + pause_s(self.woken):
            self.woken, self.woken_at = self.woken + 1, now
            self.retry_now()

    def at_rest(self, now: float) -> bool:
        """Return whether the channel has no state left, so that it can be replaced by a new one."""
        busy = self.messages or self.served or self.failures or self.line.locked()
        return not busy and self.rate_limit.at_rest(now)

    def retry_now(self) -> None:
        """Retry the chat at once, because someone has just written from it."""
        self.paused_until = 0.0
        self.wake.set()


@dataclass(eq=False, slots=True)
class PlatformBudget:
    """The budget shared by all chats of a platform; `waiting` counts the waiters for its `line`."""

    budget: PlatformRateLimit
    line: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    succeeded: asyncio.Event = field(default_factory=asyncio.Event)  # replaced at each success
    away: set[Channel] = field(default_factory=set)
    proven: bool = False  # it has answered in this run

    @asynccontextmanager
    async def queued(self) -> AsyncIterator[None]:
        """Wait for `line` and hold it inside the block."""
        self.waiting += 1
        try:
            async with self.line:
                yield
        finally:
            self.waiting -= 1


@dataclass(eq=False, slots=True)
class TurnOutcome:
    """The outcome of one turn: whether it had to wait, and whether it was used."""

    waited: bool
    used: bool = True


class Channels:
    """All chats, and the overall budget of each platform's bot."""

    def __init__(self, platforms: Mapping[str, ChatPlatform], clock: Clock) -> None:
        self._platforms = platforms
        self._clock = clock
        self._channels: dict[tuple[str, str], Channel] = {}
        self._most = _MOST
        self._wholes = {
            name: PlatformBudget(PlatformRateLimit(platform.limits.overall_per_s))
            for name, platform in platforms.items()
        }

    def now(self) -> float:
        """Return UNIX seconds."""
        return self._clock.now()

    def find(self, platform: str, chat: str) -> Channel | None:
        """Return a chat's channel, or None if it has none."""
        return self._channels.get((platform, chat))

    def at(self, platform: str, chat: str) -> Channel:
        """Return a chat's channel, created on first use."""
        place = (platform, chat)
        if place not in self._channels:
            self._put_away()
            chats = self._platforms[platform]
            self._channels[place] = Channel(
                rate_limit=RateLimit(chats.limits, group=chats.is_group(chat))
            )
        return self._channels[place]

    def of(self, message: StatusMessage) -> Channel:
        """Return the channel of a message's chat."""
        return self.at(message.origin.platform, message.origin.chat)

    def remove(self, platform: str, chat: str) -> None:
        """Drop the channel of a chat whose id has changed."""
        self._channels.pop((platform, chat), None)

    def _put_away(self) -> None:
        """Drop idle channels once there are many, so that months of traffic do not leak memory."""
        if len(self._channels) < self._most:
            return
        now = self._clock.now()
        self._channels = {
            at: channel for at, channel in self._channels.items() if not channel.at_rest(now)
        }
        self._most = max(_MOST, 2 * len(self._channels))

    # ------------------------------------------------------------ outages

    def failed(self, platform: str, channel: Channel) -> None:
        """Record that a chat could not be reached because its platform may be away."""
        channel.away = True
        self._wholes[platform].away.add(channel)

    def succeeded(self, platform: str) -> None:
        """Record that a platform answered, and retry at once what an outage has delayed.

        The chats with the oldest results come first.
        """
        whole, now = self._wholes[platform], self.now()
        whole.proven = True
        whole.succeeded.set()
        whole.succeeded = asyncio.Event()
        for channel in sorted(whole.away, key=lambda channel: channel.oldest):
            channel.platform_answered(now)
        whole.away = {channel for channel in whole.away if channel.away and channel.messages}

    def recall(self) -> None:
        """Retry what waited since an earlier run on platforms that have answered already."""
        for platform in [name for name, whole in self._wholes.items() if whole.proven]:
            self.succeeded(platform)

    async def pause(self, platform: str, least_s: float, most_s: float) -> bool:
        """Wait for any answer of the platform, up to a limit. Returns whether there was one."""
        await asyncio.sleep(least_s)
        return await came(self._wholes[platform].succeeded, most_s - least_s)

    @asynccontextmanager
    async def free_turn(self, platform: str) -> AsyncIterator["TurnOutcome"]:
        """Send a request inside the block that uses no budget."""
        yield TurnOutcome(waited=False)
        self.succeeded(platform)

    # ------------------------------------------------------------ turns

    def turn(
        self, platform: str, chat: str, *, burst: bool = False, upload: bool = False
    ) -> "Turn":
        """Return the right to send one request to a chat, as an async context manager.

        Turns are granted in the order they were requested, to answers and updates alike. An unused
        turn costs no budget. With `burst`, the request may follow others at once, as far as the
        chat allows. With `upload`, the next turn does not wait for this request to finish. Turns do
        not nest.
        """
        return Turn(self, platform, chat, burst=burst, upload=upload)

    def budgets(self, platform: str, chat: str) -> tuple[Channel, PlatformBudget]:
        """Return a chat's channel and the budget of its platform."""
        return self.at(platform, chat), self._wholes[platform]

    async def begin(
        self, channel: Channel, whole: PlatformBudget, *, burst: bool, upload: bool
    ) -> tuple[float, bool]:
        """Wait until both budgets allow a request, and count it at that moment.

        Returns that moment, and whether it had to wait.
        """

        def earliest(now: float) -> float:
            return channel.rate_limit.earliest(now, urgent=True, burst=burst)

        now = self.now()
        if not whole.waiting and max(earliest(now), whole.budget.earliest(now)) <= now:
            # The usual case: nobody is waiting.
            _count(channel, whole, now, upload=upload)
            return now, False
        waited = False
        while True:
            waited |= await self._until(earliest, channel.answered) or whole.line.locked()
            async with whole.queued():
                waited |= await self._until(whole.budget.earliest, whole.answered)
                now = self.now()
                if earliest(now) <= now:  # no penalty arrived during the wait
                    _count(channel, whole, now, upload=upload)
                    return now, waited

    async def _until(self, earliest: Callable[[float], float], answered: asyncio.Event) -> bool:
        """Wait until a budget allows a request. Returns whether it had to wait."""
        waited = False
        while (at := earliest(now := self.now())) > now:
            answered.clear()
            await came(answered, at - now)
            waited = True
        return waited


def _count(channel: Channel, whole: PlatformBudget, now: float, *, upload: bool) -> None:
    channel.rate_limit.begin(now, upload=upload)
    whole.budget.begin(now, upload=upload)


class Turn:
    """The block in which one request is sent; get one from `Channels.turn`."""

    def __init__(
        self,
        channels: Channels,
        platform: str,
        chat: str,
        *,
        burst: bool,
        upload: bool,
    ) -> None:
        self._channels = channels
        self._platform = platform
        self._channel, self._whole = channels.budgets(platform, chat)
        self._burst = burst
        self._upload = upload

    async def __aenter__(self) -> TurnOutcome:
        """Wait until the request may be sent."""
        channel = self._channel
        waited = channel.line.locked()
        async with channel.line:
            self._began_at, held = await self._channels.begin(
                channel, self._whole, burst=self._burst, upload=self._upload
            )
        self._taken = TurnOutcome(waited=waited or held)
        return self._taken

    async def __aexit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Count the request and wake the next waiter."""
        now, upload_from = self._channels.now(), self._began_at if self._upload else None
        used = self._taken.used
        for budget in (self._channel.rate_limit, self._whole.budget):
            budget.end(now, upload_from=upload_from, sent=used)
        self._channel.answered.set()
        self._whole.answered.set()
        self._channel.wake.set()
        refused = error is not None and issubclass(error, ChatError)
        if used and (error is None or (refused and not issubclass(error, ChatUnavailable))):
            self._channels.succeeded(self._platform)  # a refusal is an answer, too
