"""Other programs: looks at the cards whose hosts leave them to games, and notes it in the fleet."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from queueing.core.catalog import HostSpec
from queueing.core.concurrency import timeout
from queueing.core.ports import CardLook, CardWatch, Clock
from queueing.core.snapshot import Residency
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.yielding import Yielding, after, is_used

log = logging.getLogger(__name__)

EVERY_S = 5.0
ANSWER_S = 5.0


async def _nothing(_host: str) -> None:
    """Do nothing: no one asks when a program has gone."""


class OtherPrograms:
    """Keeps the fleet's knowledge of who uses a card; `gone` is called when a program has left one."""

    def __init__(self, *, fleet: Fleet, cards: CardWatch | None, clock: Clock) -> None:
        self.gone: Callable[[str], Awaitable[None]] = _nothing
        self._fleet = fleet
        self._cards = cards
        self._clock = clock
        self._known: dict[str, Yielding] = {}
        self._told: set[str] = set()  # hosts whose failing card has been logged

    async def first_look(self) -> None:
        """Look once at every card before anything is planned; what is seen counts at once."""
        for host in list(self._fleet.catalog.hosts):
            await self.look(host, at_once=True)

    async def watch(self) -> None:
        """Look at the cards for ever."""
        while True:
            await asyncio.sleep(EVERY_S)
            for host in list(self._fleet.catalog.hosts):
                await self.look(host)

    async def held_mb(self, host: str) -> int | None:
        """Return what the largest other program holds on a card now; None if that cannot be told."""
        spec = self._fleet.catalog.hosts.get(host)
        if self._cards is None or spec is None:
            return None
        use = await self._use(self._cards, spec)
        return None if use is None else use.others_mb

    async def look(self, host: str, *, at_once: bool = False) -> None:
        """Look at one card and note whether its host yields; raises nothing but `CancelledError`."""
        spec = self._fleet.catalog.hosts.get(host)
        least_mb = None if spec is None else spec.yields_above_mb
        if self._cards is None or spec is None or least_mb is None:
            if self._known.pop(host, Yielding()).since is not None:
                self._fleet.rests.yields(host, None)  # the operator wants it to work from now on
            return
        used = is_used(
            await self._use(self._cards, spec),
            foreign_mb=self._fleet.memory.budget.foreign_mb(host),
            least_mb=least_mb,
            still=self._fleet.memory.quiet(host),
        )
        before = self._known.get(host, Yielding())
        now = after(before, self._clock.now(), used=used, at_once=at_once)
        self._known[host] = now
        if now.since == before.since:
            return
        self._fleet.rests.yields(host, now.since)
        if now.since is not None:
            log.info("another program uses the card of %s: it is left to it", host)
        else:
            log.info("%s has its card back", host)
            await self.gone(host)

    async def _use(self, cards: CardWatch, host: HostSpec) -> CardLook | None:
        names = {backend.name for backend in host.backends}
        loaded = frozenset(
            copy.backend
            for copy in self._fleet.copies_on(host.name)
            if copy.vram_mb and copy.backend in names and copy.residency is Residency.READY
        )
        try:
            async with timeout(ANSWER_S):
                found = await cards.use(host, loaded)
        except Exception as error:  # noqa: BLE001 - a sick driver must not stop the queue
            if host.name not in self._told:
                log.warning("programs on the card of %s cannot be seen: %r", host.name, error)
            self._told.add(host.name)
            return None
        self._told.discard(host.name)
        return found
