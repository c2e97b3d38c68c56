"""Acquires and renews the leases of this process's roles, and runs their work.

A process stops the work of a role before its lease ends by the process's own clock. So two
processes never do the same work.
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
    """Adds up the seconds in which the database did not respond.

    An outage lasts from the first query that fails to the next one that succeeds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None
        self._before_s = 0.0

    @property
    def seconds(self) -> float:
        """The total so far."""
        return self._before_s + (0.0 if self._since is None else self._clock() - self._since)

    def failed(self, asked_at: float) -> None:
        """Record that a query sent at this time got no response."""
        if self._since is None:
            self._since = asked_at

    def answered(self) -> None:
        """Record a response."""
        self._before_s, self._since = self.seconds, None


PATIENCE_S = 3.0


class RoleList:
    """Implements `LeaseReader` for the leases in the database. `names` are all roles."""

    def __init__(self, roles: LeaseStore, names: Sequence[str]) -> None:
        self._roles = roles
        self._names = names

    async def roles(self) -> Sequence[Leader]:
        """Return every role, held or free. Raises `StoreError`."""
        try:
            async with timeout(PATIENCE_S):
                return listed(self._names, await self._roles.holders())
        except TimeoutError as error:
            raise StoreError("the database does not answer") from error


def listed(names: Sequence[str], known: Iterable[Leader]) -> Sequence[Leader]:
    """Return the roles in the order of `names`. A role with an expired lease has no holder."""
    held = {role.name: role for role in known if role.holder and role.left_s > 0}
    return [
        held.get(name, Leader(name=name, holder="", address="", epoch=0, left_s=0.0))
        for name in names
    ]


QUEUE = "queue"
"""The role of the process that schedules jobs, the leader."""


def roles_of(config: Config) -> tuple[str, ...]:
    """Return all roles of a configuration: the queue's and one for each chat."""
    return (QUEUE, *config.chats.roles())


log = logging.getLogger(__name__)

RENEWALS = 3
"""Renewals within the duration of a lease."""
MARGIN = 0.15
"""Share of the lease that remains when the holder stops, because cancelling takes a moment."""
POLL_S = 0.25
"""How often to check for a free role, in addition to notifications."""
LOOK_S = 0.2
"""How often a holder checks its database session."""
DOUBT_S = 0.4
"""How long a holder continues without a database session; others then take the role at once."""
FREE_S = 2.0
"""How long a shutdown waits for a database that does not respond."""


class GivesWay(Exception):
    """Raised if a role's work cannot be done here at present. Another process may manage it."""


class _End(Enum):
    """Why a process stopped a role's work."""

    DONE = auto()
    LOST = auto()
    DOUBTED = auto()
    GAVE_WAY = auto()
    FENCED = auto()


class HeldLease(ChatLease):
    """Answers from memory whether this process still holds the lease of a role."""

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
        """Seconds for which the lease is certainly held."""
        return max(0.0, self._ends_at - self._clock())

    @property
    def held(self) -> bool:
        """Whether the lease is certainly held. Once False, it stays False.

        A lost session makes the lease doubtful, because another process may then take the role.
        """
        if not self.denied:
            in_doubt_s = 0.0 if self.look() else self._clock() - self._sure_at
            # A call that was just allowed may still be under way.
            self.denied = self.left_s <= self._spare_s or in_doubt_s > DOUBT_S
        return not self.denied

    def look(self) -> bool:
        """Return whether the session that holds the role is intact."""
        if self._intact():
            self._sure_at = self._clock()
            return True
        return False

    def prolong(self, ends_at: float) -> None:
        """Record a renewal."""
        self._ends_at = ends_at


Duty = Callable[[HeldLease], Awaitable[None]]
"""Does the work of a role until cancelled."""


class LeaseKeeper:
    """Applies for roles and runs their work while this process holds them.

    `terms` maps each requested role to its epoch, or to 0 while it is not held. `outage` adds up
    how long the database did not respond.
    """

    def __init__(
        self, roles: LeaseStore, *, lease_s: float, clock: Callable[[], float] = awake_s
    ) -> None:
        self._roles = roles
        self._lease_s = lease_s
        self._clock = clock
        self.terms: dict[str, int] = {}
        self.outage = Outage(clock)

    async def serve(
        self, name: str, duty: Duty, *, address: str = "", about: About = nothing
    ) -> None:
        """Run a role's work whenever this process holds the role.

        Ends when cancelled or when the work fails. On cancellation, the work shuts down in order,
        then the role is released. Work that returns gives the role up. If work raises `GivesWay` or
        `StoreError`, the role is left to others, and this process applies again after the duration
        of a lease.
        """
        while True:
            self.terms[name] = 0
            lease = await self._apply(name, address, about)
            log.info("this process holds the role %s (epoch %d)", name, lease.stored.epoch)
            self.terms[name] = lease.stored.epoch
            try:
                end = await self._hold(lease, duty)
            finally:
                self.terms[name] = 0
            if end is _End.DONE:
                return
            log.warning("this process no longer holds the role %s", name)
            if end in {
                _End.DOUBTED,
                _End.FENCED,
            }:  # the database may still list this process as the holder
                await self._free(lease.stored, in_order=False)
            if end is _End.GAVE_WAY:
                await asyncio.sleep(self._lease_s)

    async def _apply(self, name: str, address: str, about: About) -> HeldLease:
        while True:
            asked_at = self._clock()
            try:
                async with timeout(self._lease_s):
                    taken = await self._roles.take(name, address=address, about=about)
                self.outage.answered()
            except (StoreError, TimeoutError) as error:
                log.debug("cannot apply for the role %s: %s", name, error)
                self.outage.failed(asked_at)
                taken = None
            if taken is not None:
                intact = partial(self._roles.intact, taken)
                ends_at, spare_s = asked_at + self._lease_s, self._lease_s * MARGIN
                return HeldLease(taken, ends_at, self._clock, intact, spare_s)
            await self._roles.freed(POLL_S)

    async def _hold(self, lease: HeldLease, duty: Duty) -> _End:
        """Run the work while the lease is held.

        Afterwards, releases the role unless the lease is lost.
        """
        doing = asyncio.ensure_future(duty(lease))
        keeping = asyncio.ensure_future(self._keep(lease))
        try:
            await asyncio.wait({doing, keeping}, return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                end = _End.DOUBTED if lease.denied else _End.LOST
                lease.denied = True  # no more calls are allowed while the work stops
                return end
            await doing  # raises what stopped the work
        except BaseException as error:
            if _is(error, Fenced):
                log.warning("%s", first_cause(error))
                return _End.FENCED
            await self._stop(doing)
            if not keeping.done():
                await self._free(lease.stored, in_order=not _is(error, StoreError))
            if not _is(error, (GivesWay, StoreError)):
                raise
            log.warning("giving up the role %s for now: %s", lease.stored.name, first_cause(error))
            return _End.GAVE_WAY
        else:
            await self._free(lease.stored)
            return _End.DONE
        finally:
            await self._stop(doing)
            await self._stop(keeping)

    async def _keep(self, lease: HeldLease) -> None:
        """Renew a lease until it is lost or about to expire."""
        while True:
            await self._until_due(lease)
            while (renewed := await self._renewed(lease)) is None:
                if lease.left_s < self._lease_s * MARGIN or lease.denied:
                    return
                await asyncio.sleep(min(POLL_S, self._lease_s / 10))
            if not renewed or lease.denied:
                return

    async def _until_due(self, lease: HeldLease) -> None:
        """Wait until the renewal is due or the session has ended.

        The lease counts from the request, so it includes the time until the response.
        """
        spare_s = self._lease_s * (1 - 1 / RENEWALS)
        while (due_in_s := lease.left_s - spare_s) > 0:
            await asyncio.sleep(min(due_in_s, LOOK_S))
            if not lease.look() or lease.denied:
                return

    async def _renewed(self, lease: HeldLease) -> bool | None:
        """Renew a lease once. Returns None if the database did not respond."""
        asked_at = self._clock()
        patience_s = lease.left_s - self._lease_s * MARGIN
        try:
            async with timeout(max(0.0, patience_s)):
                renewed = await self._roles.renew(lease.stored)
            self.outage.answered()
        except (StoreError, TimeoutError) as error:
            log.debug("cannot renew the lease of the role %s: %s", lease.stored.name, error)
            self.outage.failed(asked_at)
            return None
        if not renewed:
            return False
        lease.prolong(asked_at + self._lease_s)
        return True

    async def _free(self, stored: Lease, *, in_order: bool = True) -> None:
        try:
            async with timeout(FREE_S):
                await self._roles.free(stored, in_order=in_order)
        except (StoreError, TimeoutError) as error:
            log.warning("cannot free the role %s before its lease expires: %s", stored.name, error)

    async def _stop(self, task: "asyncio.Future[None]") -> None:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("stopped with %r", error)


def _is(error: BaseException, kinds: type[Exception] | tuple[type[Exception], ...]) -> bool:
    """Return whether an error, or one in its group, is of this kind."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(kinds) is not None
    return isinstance(error, kinds)
