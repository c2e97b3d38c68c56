"""Checkpoint: persists model residency and learned durations so that a restart can restore them."""

import asyncio

from queueing.core.errors import StoreError
from queueing.core.snapshot import Residency
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.fleet.learned_times import Times
from queueing.forecast.calibration import Score
from queueing.forecast.durations import Learned
from queueing.store.jobs.job_store import JobStore


class Checkpoint:
    """Keeps the store's tables of copies, learned times and sizes up to date."""

    def __init__(self, *, store: JobStore, fleet: Fleet, times: Times) -> None:
        self._store = store
        self._fleet = fleet
        self._times = times
        self._writing = asyncio.Lock()
        self._learned: list[Learned] = []  # not yet in the store
        self._scores: list[Score] = []
        self._sizes: dict[str, int] = {}

    async def write(self) -> None:
        """Write what has changed; when it returns, all changes before the call are durable.

        Raises `StoreError`; nothing is lost then.
        """
        async with self._writing:
            if self._fleet.copies_changed:
                self._fleet.copies_changed = False
                try:
                    await self._store.note_residency(self._residency())
                except StoreError:
                    self._fleet.copies_changed = True
                    raise
            self._learned += self._times.take_unsaved()
            if self._learned:
                await self._store.learn(self._learned)
                self._learned.clear()
            self._scores += self._times.take_scores()
            if self._scores:
                await self._store.note_scores(self._scores)
                self._scores.clear()
            self._sizes |= self._fleet.memory.budget.take_unsaved()
            if self._sizes:
                await self._store.note_sizes(self._sizes)
                self._sizes.clear()

    def _residency(self) -> list[tuple[str, str, str, str, bool]]:
        """Return the rows of the store's table: all copies, and pins without one."""
        host_of = self._fleet.catalog.host_of
        copies = [
            (host_of[copy.backend], copy.backend, copy.model, copy.residency.value, copy.pinned)
            for copy in self._fleet.copies
        ]
        return copies + [
            (host_of[backend], backend, model, Residency.LOADING.value, True)
            for model, backend in self._fleet.pins.unmet()
        ]
