"""Sizing: waits for the room of a load, and learns from it how much memory the model takes.

Loads nothing itself. On a card that nothing measures, it neither waits nor learns.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from queueing.core.catalog import ModelSpec
from queueing.core.divided import whole_mb
from queueing.core.errors import OutOfMemory
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.health_checker import Health
from queueing.engine.program_watcher import OtherPrograms

ROOM_S = 30.0  # how long freed memory may take to appear: drivers report it late
ROOM_POLL_S = 0.5
STIRRED_MB = 256  # by so much a desktop may change while a model is loaded


@dataclass(frozen=True, slots=True)
class Before:
    """What was free on each host before a load, and what the largest other program held there."""

    free_mb: Mapping[str, int]
    others_mb: Mapping[str, int | None]  # None where processes are not told one from another


class Sizing:
    """Measures the cards around each load."""

    def __init__(self, *, fleet: Fleet, health: Health, others: OtherPrograms) -> None:
        self._fleet = fleet
        self._health = health
        self._others = others

    async def room(self, spec: ModelSpec, backend: str) -> Before | None:
        """Wait until there is room on every host and return what is; None if one is not measured.

        Raises `OutOfMemory` if it does not become free.
        """
        needs = self._needs(spec, backend)
        free: dict[str, int] = {}
        for host, needed_mb in needs.items():
            free_mb = await self._room(host, min(needed_mb, self._fleet.memory.usable_mb(host)))
            if free_mb is not None:
                free[host] = free_mb
        if len(free) < len(needs):
            return None
        return Before(free, {host: await self._others.held_mb(host) for host in free})

    def _needs(self, spec: ModelSpec, backend: str) -> dict[str, int]:
        """Return what a model takes on each of its hosts."""
        shares = dict(self._fleet.memory.shares(spec, backend))
        hosts = self._fleet.catalog.parts_of(spec, backend)
        return {host: shares.get(host, self._fleet.memory.vram_mb(spec)) for host in hosts}

    async def learn(self, spec: ModelSpec, backend: str, before: Before | None) -> None:
        """Correct the model's size to what its load took, if nothing else moved meanwhile.

        Of one that spans cards the part that is largest for its share counts, so that none overflows.
        """
        if before is None:
            return
        if not all(self._fleet.memory.quiet(host, but=spec.name) for host in before.free_mb):
            return
        taken: dict[str, int] = {}
        for host, free_mb in before.free_mb.items():
            after_mb = await self._health.free_mb(host)
            if after_mb is None or await self._stirred(host, before.others_mb[host]):
                return
            taken[host] = max(0, free_mb - after_mb)
        if any(taken.values()):
            parts = self._fleet.catalog.parts_of(spec, backend)
            self._fleet.memory.budget.learn(spec.name, whole_mb(taken, parts))

    async def _stirred(self, host: str, before_mb: int | None) -> bool:
        """Return whether another program took memory meanwhile, or gave it back.

        A model would be believed to be larger by a game, for good: it might fit nowhere after it.
        """
        now_mb = None if before_mb is None else await self._others.held_mb(host)
        return before_mb is not None and now_mb is not None and abs(now_mb - before_mb) > STIRRED_MB

    async def _room(self, host: str, need_mb: int) -> int | None:
        """Wait until the memory is really free and return it; None if nothing measures it."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + ROOM_S
        while (free_mb := await self._health.free_mb(host)) is not None and free_mb < need_mb:
            if loop.time() >= give_up_at:
                raise OutOfMemory(f"{need_mb} MB needed on {host}, {free_mb} MB free")
            await asyncio.sleep(ROOM_POLL_S)
        return free_mb
