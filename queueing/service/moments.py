"""Moments: ends jobs that have waited too long to begin, and puts those first that must begin now.

Both are looked for in the store, so they happen once, also after a restart.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

from queueing.core.clock import doubt_of
from queueing.core.concurrency import timeout
from queueing.core.errors import StoreError
from queueing.core.events import Event, JobChanged
from queueing.core.jobs import Job, JobEvent
from queueing.core.ports import Clock
from queueing.core.problems import What, problem
from queueing.engine.deferred_jobs import Later
from queueing.planning.retry import pause_s
from queueing.service.deadlines import Urgency
from queueing.service.job_submitter import Intake
from queueing.service.queue_admin import Control
from queueing.store.jobs.job_store import JobStore

log = logging.getLogger(__name__)

LOOK_S = 30.0  # while jobs with a moment wait: what others ask for changes when they must begin
LOOK_MOST_S = 600.0

_COMING = (None, JobEvent.RETRY, JobEvent.RELEASE)


class Moments:
    """Waits for the moments of jobs that have one."""

    def __init__(
        self,
        *,
        jobs: JobStore,
        intake: Intake,
        control: Control,
        later: Later,
        urgency: Urgency,
        clock: Clock,
    ) -> None:
        self._jobs = jobs
        self._intake = intake
        self._control = control
        self._later = later
        self._urgency = urgency
        self._clock = clock
        self._awake = asyncio.Event()
        self._order: list[int] = []  # in which urged jobs were put first

    def on_event(self, event: Event) -> None:
        """Look again when a job with a moment has come, or has come back to its line."""
        if isinstance(event, JobChanged) and event.event in _COMING:
            job = event.job
            if job.expires_at is not None or job.due_at is not None:
                self._awake.set()

    async def run(self) -> None:
        """Look until cancelled."""
        failures = 0
        while True:
            self._awake.clear()
            try:
                next_at = await self._look()
            except StoreError as error:
                failures += 1
                log.warning("jobs that wait too long could not be looked for: %s", error)
                await asyncio.sleep(pause_s(failures))
                continue
            failures = 0
            rest_s = None if next_at is None else max(0.0, next_at - self._clock.now())
            with suppress(TimeoutError):
                async with timeout(rest_s):
                    await self._awake.wait()

    async def _look(self) -> float | None:
        """Act on what is due; return when to look again, None if nothing has a moment."""
        if doubt_of(self._clock) is not None:
            return self._clock.now() + LOOK_S
        for job in await self._jobs.expired(self._clock.now()):
            waited = round((self._clock.now() - job.queued_at) / 60)
            log.info("job %d: waited %d min and has not begun", job.id, waited)
            await self._intake.give_up(job.id, problem(What.WAITED, minutes=waited))
        urged_at = await self._urge()
        moments = [at for at in (await self._jobs.next_expiry(), urged_at) if at is not None]
        return min(moments, default=None)

    async def _urge(self) -> float | None:
        """Put the jobs first that must begin now; return when to look for the next."""
        dated = [job for job in await self._jobs.dated() if not job.held]
        urged = self._later.urged
        urged &= {job.id for job in dated}
        if all(job.id in urged for job in dated):
            return None
        spares = await self._urgency.spares(dated)
        urged |= {job_id for job_id, spare_s in spares.items() if spare_s <= 0}
        await self._put_first([job for job in dated if job.id in urged])
        left_s = [spare_s for job_id, spare_s in spares.items() if job_id not in urged]
        if not left_s:
            return None
        return self._clock.now() + min(LOOK_MOST_S, max(LOOK_S, min(left_s) / 2))

    async def _put_first(self, jobs: Sequence[Job]) -> None:
        """Put jobs before all others of their lines, in this order."""
        order = [job.id for job in jobs]
        if order != [job_id for job_id in self._order if job_id in set(order)]:
            for job_id in reversed(order):
                await self._control.move_first(job_id)
        self._order = order
