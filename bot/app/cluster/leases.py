"""Keeps a process's posts: applies for them, renews their leases, and does their duties meanwhile.

By its own clock a process stops a duty before its lease ends, so that two never do the same.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import Enum, auto
from functools import partial

from bot.config.config import Config
from bot.core.platform import ChatLease
from queueing.core.concurrency import first_cause, timeout
from queueing.core.errors import Fenced, StoreError
from queueing.core.leases import About, Leader, Lease, LeaseStore, nothing
from queueing.core.ports import awake_s


class Outage:
    """The seconds without an answer, from the first question that failed to the next answer."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None
        self._before_s = 0.0

    @property
    def seconds(self) -> float:
        """All of them so far."""
        return self._before_s + (0.0 if self._since is None else self._clock() - self._since)

    def failed(self, asked_at: float) -> None:
        """Note that a question asked at that time was not answered."""
        if self._since is None:
            self._since = asked_at

    def answered(self) -> None:
        """Note an answer."""
        self._before_s, self._since = self.seconds, None


PATIENCE_S = 3.0


class PostList:
    """Implements `PostReader` over the posts in the database; `names` are those there are."""

    def __init__(self, posts: LeaseStore, names: Sequence[str]) -> None:
        self._posts = posts
        self._names = names

    async def posts(self) -> Sequence[Leader]:
        """Return every post there is, held or free. Raises `StoreError`."""
        try:
            async with timeout(PATIENCE_S):
                return listed(self._names, await self._posts.holders())
        except TimeoutError as error:
            raise StoreError("the database does not answer") from error


def listed(names: Sequence[str], known: Iterable[Leader]) -> Sequence[Leader]:
    """Return a post for each name in that order; one whose lease is over has no holder."""
    held = {post.name: post for post in known if post.holder and post.left_s > 0}
    return [
        held.get(name, Leader(name=name, holder="", address="", epoch=0, left_s=0.0))
        for name in names
    ]


QUEUE = "queue"
"""The post of the process that schedules."""


def posts_of(config: Config) -> tuple[str, ...]:
    """Return the posts there are: the queue's, and that of every chat that is configured."""
    return (QUEUE, *config.chats.posts())


log = logging.getLogger(__name__)

RENEWALS = 3
"""How often a lease is renewed in its time."""
MARGIN = 0.15
"""The share of a lease that is left when its holder stops: cancelling takes a moment."""
POLL_S = 0.25
"""How often a free post is looked for, if no notice comes first."""
LOOK_S = 0.2
"""How often a holder looks whether its session stands."""
DOUBT_S = 0.4
"""How long a holder may go on without a session, before others take the post without waiting."""
FREE_S = 2.0
"""How long an orderly stop waits for a database that does not answer."""


class GivesWay(Exception):
    """A duty cannot be done here for now; perhaps another process can do it."""


class _End(Enum):
    """How a process came to do a duty no longer."""

    DONE = auto()
    LOST = auto()
    DOUBTED = auto()
    GAVE_WAY = auto()
    FENCED = auto()


class HeldLease(ChatLease):
    """What a duty may ask about its own post, from memory: whether it still holds it."""

    def __init__(
        self,
        stored: Lease,
        ends_at: float,
        clock: Callable[[], float],
        intact: Callable[[], bool] = lambda: True,
        spare_s: float = 0.0,
    ) -> None:
        self.stored = stored
        self._ends_at = ends_at
        self._clock = clock
        self._intact = intact
        self._spare_s = spare_s
        self._sure_at = clock()
        self.denied = False

    @property
    def left_s(self) -> float:
        """How long the post is certainly held."""
        return max(0.0, self._ends_at - self._clock())

    @property
    def held(self) -> bool:
        """Whether the post is certainly held. Once it is denied, it stays so.

        Another process may take a post whose holder's session has ended: after that it is in doubt.
        """
        if not self.denied:
            in_doubt_s = 0.0 if self.look() else self._clock() - self._sure_at
            # A call that was allowed may be on its way for a moment.
            self.denied = self.left_s <= self._spare_s or in_doubt_s > DOUBT_S
        return not self.denied

    def look(self) -> bool:
        """Return whether the session stands that keeps the post until the lease is over."""
        if self._intact():
            self._sure_at = self._clock()
            return True
        return False

    def prolong(self, ends_at: float) -> None:
        """Record a renewal."""
        self._ends_at = ends_at


Duty = Callable[[HeldLease], Awaitable[None]]
"""Does the work of a post until it is cancelled."""


class LeaseKeeper:
    """Applies for posts, and does their duties while it holds them.

    `terms` has the epoch of each post that it applies for, 0 while another holds it; `outage` counts
    how long the database has not answered.
    """

    def __init__(
        self, posts: LeaseStore, *, lease_s: float, clock: Callable[[], float] = awake_s
    ) -> None:
        self._posts = posts
        self._lease_s = lease_s
        self._clock = clock
        self.terms: dict[str, int] = {}
        self.outage = Outage(clock)

    async def serve(
        self, name: str, duty: Duty, *, address: str = "", about: About = nothing
    ) -> None:
        """Do a post's duty whenever this process holds it, until cancelled or the duty fails.

        Cancelled, it lets the duty stop in its order and then frees the post. A duty that returns
        has given the post up; one that raises `GivesWay` or `StoreError` leaves it to others, and
        this process applies again after the time of a lease.
        """
        while True:
            self.terms[name] = 0
            lease = await self._apply(name, address, about)
            log.info("this process holds the post %s (epoch %d)", name, lease.stored.epoch)
            self.terms[name] = lease.stored.epoch
            try:
                end = await self._hold(lease, duty)
            finally:
                self.terms[name] = 0
            if end is _End.DONE:
                return
            log.warning("this process no longer holds the post %s", name)
            if end in {_End.DOUBTED, _End.FENCED}:  # the database may know it as the holder still
                await self._free(lease.stored, in_order=False)
            if end is _End.GAVE_WAY:
                await asyncio.sleep(self._lease_s)

    async def _apply(self, name: str, address: str, about: About) -> HeldLease:
        while True:
            asked_at = self._clock()
            try:
                async with timeout(self._lease_s):
                    taken = await self._posts.take(name, address=address, about=about)
                self.outage.answered()
            except (StoreError, TimeoutError) as error:
                log.debug("the post %s cannot be applied for: %s", name, error)
                self.outage.failed(asked_at)
                taken = None
            if taken is not None:
                intact = partial(self._posts.intact, taken)
                ends_at, spare_s = asked_at + self._lease_s, self._lease_s * MARGIN
                return HeldLease(taken, ends_at, self._clock, intact, spare_s)
            await self._posts.freed(POLL_S)

    async def _hold(self, lease: HeldLease, duty: Duty) -> _End:
        """Do the duty while the post is held; unless it is lost, it is free afterwards."""
        doing = asyncio.ensure_future(duty(lease))
        keeping = asyncio.ensure_future(self._keep(lease))
        try:
            await asyncio.wait({doing, keeping}, return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                end = _End.DOUBTED if lease.denied else _End.LOST
                lease.denied = True  # nothing more is said while the duty stops
                return end
            await doing  # it raises what stopped the duty
        except BaseException as error:
            if _is(error, Fenced):
                log.warning("%s", first_cause(error))
                return _End.FENCED
            await self._stop(doing)
            if not keeping.done():
                await self._free(lease.stored, in_order=not _is(error, StoreError))
            if not _is(error, (GivesWay, StoreError)):
                raise
            log.warning(
                "the post %s is left to others for now: %s", lease.stored.name, first_cause(error)
            )
            return _End.GAVE_WAY
        else:
            await self._free(lease.stored)
            return _End.DONE
        finally:
            await self._stop(doing)
            await self._stop(keeping)

    async def _keep(self, lease: HeldLease) -> None:
        """Renew a lease until it is lost or about to end."""
        while True:
            await self._until_due(lease)
            while (renewed := await self._renewed(lease)) is None:
                if lease.left_s < self._lease_s * MARGIN or lease.denied:
                    return
                await asyncio.sleep(min(POLL_S, self._lease_s / 10))
            if not renewed or lease.denied:
                return

    async def _until_due(self, lease: HeldLease) -> None:
        """Wait until a part of the lease is over, or until its session has ended.

        It began when it was asked for: what a slow database took to answer is a part of it.
        """
        spare_s = self._lease_s * (1 - 1 / RENEWALS)
        while (due_in_s := lease.left_s - spare_s) > 0:
            await asyncio.sleep(min(due_in_s, LOOK_S))
            if not lease.look() or lease.denied:
                return

    async def _renewed(self, lease: HeldLease) -> bool | None:
        """Renew a lease once; None if the database could not be asked."""
        asked_at = self._clock()
        patience_s = lease.left_s - self._lease_s * MARGIN
        try:
            async with timeout(max(0.0, patience_s)):
                renewed = await self._posts.renew(lease.stored)
            self.outage.answered()
        except (StoreError, TimeoutError) as error:
            log.debug("the post %s cannot be renewed: %s", lease.stored.name, error)
            self.outage.failed(asked_at)
            return None
        if not renewed:
            return False
        lease.prolong(asked_at + self._lease_s)
        return True

    async def _free(self, stored: Lease, *, in_order: bool = True) -> None:
        try:
            async with timeout(FREE_S):
                await self._posts.free(stored, in_order=in_order)
        except (StoreError, TimeoutError) as error:
            log.warning("the post %s is free when its lease is over: %s", stored.name, error)

    async def _stop(self, task: "asyncio.Future[None]") -> None:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("stopped with %r", error)


def _is(error: BaseException, kinds: type[Exception] | tuple[type[Exception], ...]) -> bool:
    """Return whether a duty ended by an error of that kind, perhaps among others."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(kinds) is not None
    return isinstance(error, kinds)
