"""Follows the queue held by this process, and writes its history in batches.

An event costs a few assignments; everything else runs every few seconds, outside the queue. If
another process takes over the queue, the database refuses further batches of this one.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Protocol

from bot.core.live_settings import LiveSettings
from bot.monitoring.buckets import ended_job
from bot.monitoring.history import History, HistoryBatch
from bot.monitoring.timeline import HostTimeline, doing
from queueing.core.concurrency import undisturbed
from queueing.core.errors import StoreError
from queueing.core.events import CopyLeft, Event, JobChanged, LoadEnded, Stopping
from queueing.core.ports import Clock, doubt_of
from queueing.core.status import HostActivity, Promised

log = logging.getLogger(__name__)

EVERY_S = 15.0
_EXPIRE_EVERY_S = 3600.0
_AT_ONCE = 500  # jobs per batch that an earlier run left uncounted


class KeptPromises(Protocol):
    """The promises made by the queue in this process."""

    @property
    def given(self) -> Mapping[int, Promised]:
        """The promises kept so far, by job id."""

    def follow(self) -> None:
        """Start keeping promises. The caller must drop those of ended jobs."""

    def restore(self, given: Mapping[int, Promised]) -> None:
        """Add the promises of an earlier run."""

    def drop(self, job_ids: Iterable[int]) -> None:
        """Forget the promises of these jobs."""


class Recorder:
    """Records the history. Subscribe `on_event` and `on_hosts`, and run `run`."""

    def __init__(
        self,
        history: History,
        promises: KeptPromises,
        clock: Clock,
        live: LiveSettings,
    ) -> None:
        self._history = history
        self._promises = promises
        self._clock = clock
        self._live = live
        self._batch = HistoryBatch()
        self._timelines: dict[str, HostTimeline] = {}
        self._noted: set[int] = set()  # ids of jobs whose promises are in the database
        self._stops = False
        self._expired_at: float | None = None
        promises.follow()

    # ------------------------------------------------------------ following

    def on_event(self, event: Event) -> None:
        """Record the end of a job or load, or a copy that left."""
        if isinstance(event, JobChanged):
            job = event.job
            if job.state.final:
                self._batch.end(ended_job(job, self._promises.given.get(job.id)))
        elif isinstance(event, LoadEnded | CopyLeft):
            self._batch.turn(event, self._clock.now())
        elif isinstance(event, Stopping):
            self._stops = True

    def on_hosts(self, states: Mapping[str, HostActivity]) -> None:
        """Record what each host is doing."""
        if self._stops:  # loads aborted by a shutdown have not failed
            return
        now = self._clock.now()
        for host, state in states.items():
            self._timelines.setdefault(host, HostTimeline()).see(doing(state), now)

    # ------------------------------------------------------------ writing

    async def run(self) -> None:
        """Count what an earlier run left, then write every few seconds until cancelled."""
        try:
            await self.take_up()
            while True:
                await self.write()
                await self._expire()
                await asyncio.sleep(EVERY_S)
        finally:
            await self.write()

    async def take_up(self) -> None:
        """Count jobs that ended uncounted, and restore promises."""
        try:
            promises = await self._history.promises()
            self._noted.update(promises)
            self._promises.restore(promises)
            since = 0.0
            while True:
                left, since = await self._history.uncounted(since, _AT_ONCE)
                for job in left:
                    self._batch.end(job)
                if not left or not await self.write():
                    return
        except StoreError as error:
            log.warning("cannot read the history of an earlier run: %s", error)

    async def write(self) -> bool:
        """Write the collected changes. Returns whether none are left; a failed batch is kept."""
        batch = self._taken()
        if not batch:
            return True
        writing = asyncio.ensure_future(self._history.add(batch))
        try:
            await undisturbed(writing)
        except asyncio.CancelledError:
            # Wait for the outcome, so that the batch is neither lost nor counted twice.
            await asyncio.wait([writing])
            if not writing.cancelled() and writing.exception() is not None:
                self._batch.before(batch)
            raise
        except StoreError as error:
            log.warning("cannot write the history yet, retrying later: %s", error)
            self._batch.before(batch)
            return False
        self._noted.update(batch.promises)
        self._noted.difference_update(batch.ended)
        self._promises.drop(batch.ended)
        return True

    def _taken(self) -> HistoryBatch:
        now, batch = self._clock.now(), self._batch
        for host, timeline in self._timelines.items():
            batch.follow(host, *timeline.take(now))
        for job_id, promised in self._promises.given.items():
            if job_id not in self._noted and job_id not in batch.ended:
                batch.promises[job_id] = promised
        batch.kept_promises |= self._noted & batch.ended.keys()
        self._batch = HistoryBatch()
        return batch

    async def _expire(self) -> None:
        now = self._clock.now()
        if doubt_of(self._clock) is not None:
            return
        if self._expired_at is not None and now < self._expired_at + _EXPIRE_EVERY_S:
            return
        try:
            await self._history.expire(now, self._live.history_s)
            self._expired_at = now
        except StoreError as error:
            log.warning("cannot delete old history yet, retrying later: %s", error)
