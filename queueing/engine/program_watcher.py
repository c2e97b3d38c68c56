"""Yields a GPU to other programs, such as games, and takes it back afterwards.

A game is detected by the memory of processes that belong to no server of the host. Where processes
cannot be told apart, it is detected by the GPU's memory, and by its load while no server is
working.
"""

import asyncio
import logging
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

from queueing.core.concurrency import timeout
from queueing.core.ports import Clock, GpuLook, GpuWatch
from queueing.core.snapshot import Residency
from queueing.core.specs import HostSpec
from queueing.engine.fleet.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SURE = 2  # consecutive checks: a program that only probes for a GPU is not a game
GONE_S = 120.0  # a game may free its memory between two levels
BUSY = 0.1  # of the GPU's time, where processes are not visible; an idle program stays below it


@dataclass(frozen=True, slots=True)
class Yielding:
    """The state of other programs on a GPU. The host has yielded to them since `since`."""

    since: float | None = None
    seen_at: float = -inf
    looks: int = 0


def is_used(use: GpuLook | None, *, foreign_mb: int, least_mb: int, still: bool) -> bool | None:
    """Return whether another program uses a GPU, or None if this measurement is not conclusive.

    `foreign_mb` is the memory in use in addition to the known models. `still` means that no model
    runs, loads or unloads there; otherwise the GPU's load may come from its servers.
    """
    if use is None:
        return None
    if use.others_mb is not None:
        return use.others_mb >= least_mb
    if foreign_mb < least_mb:
        return False
    if use.busy is None or not still:
        return None
    return use.busy >= BUSY


def after(state: Yielding, now: float, *, used: bool | None, at_once: bool = False) -> Yielding:
    """Return the state after a check. With `at_once`, a single check is enough, as at the start."""
    if used is None:
        return state if state.since is None else replace(state, seen_at=now)
    if used:
        looks = state.looks + 1
        begins = state.since is None and (at_once or looks >= SURE)
        return Yielding(now if begins else state.since, now, looks)
    if state.since is not None and now - state.seen_at < GONE_S:
        return replace(state, looks=0)
    return Yielding()


log = logging.getLogger(__name__)

EVERY_S = 5.0
ANSWER_S = 5.0


async def _nothing(_host: str) -> None:
    """Default for `gone`."""


class ProgramWatcher:
    """Keeps track of which GPUs other programs use. Calls `gone` when a program has left one."""

    def __init__(self, *, fleet: Fleet, gpus: GpuWatch | None, clock: Clock) -> None:
        self.gone: Callable[[str], Awaitable[None]] = _nothing
        self._fleet = fleet
        self._gpus = gpus
        self._clock = clock
        self._known: dict[str, Yielding] = {}
        self._logged: set[str] = set()  # hosts whose failing GPU has been logged

    async def first_look(self) -> None:
        """Check every GPU once before anything is planned, and act on the result at once."""
        for host in list(self._fleet.catalog.hosts):
            await self.look(host, at_once=True)

    async def watch(self) -> None:
        """Check the GPUs until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            for host in list(self._fleet.catalog.hosts):
                await self.look(host)

    async def held_mb(self, host: str) -> int | None:
        """Return the memory of the largest other program on a GPU in MB, or None if unknown."""
        spec = self._fleet.catalog.hosts.get(host)
        if self._gpus is None or spec is None:
            return None
        use = await self._use(self._gpus, spec)
        return None if use is None else use.others_mb

    async def look(self, host: str, *, at_once: bool = False) -> None:
        """Check one GPU and record whether its host yields. Raises only `CancelledError`."""
        spec = self._fleet.catalog.hosts.get(host)
        least_mb = None if spec is None else spec.yields_above_mb
        if self._gpus is None or spec is None or least_mb is None:
            if self._known.pop(host, Yielding()).since is not None:
                self._fleet.rests.yields(host, None)  # a reload turned yielding off
            return
        used = is_used(
            await self._use(self._gpus, spec),
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
            log.info("another program is using the GPU of %s: yielding it", host)
        else:
            log.info("%s has its GPU back", host)
            await self.gone(host)

    async def _use(self, gpus: GpuWatch, host: HostSpec) -> GpuLook | None:
        names = {backend.name for backend in host.backends}
        loaded = frozenset(
            copy.backend
            for copy in self._fleet.copies.on(host.name)
            if copy.vram_mb and copy.backend in names and copy.residency is Residency.READY
        )
        try:
            async with timeout(ANSWER_S):
                found = await gpus.use(host, loaded)
        except Exception as error:  # noqa: BLE001 - a sick driver must not stop the queue
            if host.name not in self._logged:
                log.warning("cannot see the programs on the GPU of %s: %r", host.name, error)
            self._logged.add(host.name)
            return None
        self._logged.discard(host.name)
        return found
