"""Moments: ends jobs that have waited too long to begin, and puts those first that must begin now.

Both are looked for in the store, so they happen once, also after a restart.
"""

import asyncio
import logging
from contextlib import suppress

from queueing.core.errors import StoreError
from queueing.core.events import Event, JobChanged
from queueing.core.ports import Clock
from queueing.core.problems import What, problem
from queueing.core.storage import DatedJobs
from queueing.engine.later import Later
from queueing.planning.retry import pause_s
from queueing.service.admin import Control
from queueing.service.intake import Intake

log = logging.getLogger(__name__)

LOOK_S = 30.0  # while jobs with a moment wait: loads and times change when they must begin


class Moments:
    """Waits for the moments of jobs that have one."""

    def __init__(
        self,
        *,
        jobs: DatedJobs,
        intake: Intake,
        control: Control,
        later: Later,
        clock: Clock,
    ) -> None:
        self._jobs = jobs
        self._intake = intake
        self._control = control
        self._later = later
        self._clock = clock
        self._awake = asyncio.Event()

    def on_event(self, event: Event) -> None:
        """Look again when a job with a moment has come."""
        if isinstance(event, JobChanged) and event.event is None:
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
                async with asyncio.timeout(rest_s):
                    await self._awake.wait()

    async def _look(self) -> float | None:
        """Act on what is due; return when to look again, None if nothing has a moment."""
        for job in await self._jobs.expired(self._clock.now()):
            waited = round((self._clock.now() - job.queued_at) / 60)
            log.info("job %d: waited %d min and has not begun", job.id, waited)
            await self._intake.give_up(job.id, problem(What.WAITED, minutes=waited))
        urged_at = await self._urge()
        moments = [at for at in (await self._jobs.next_expiry(), urged_at) if at is not None]
        return min(moments, default=None)

    async def _urge(self) -> float | None:
        """Put the jobs first that must begin now; return when to look for the next."""
        dated = await self._jobs.dated()
        self._later.urged &= {job.id for job in dated}
        moments = []
        for job in dated:
            if job.id in self._later.urged or job.held:
                continue
            at, now = self._later.start_by(job), self._clock.now()
            if at is None:
                continue
            if at <= now:
                self._later.urged.add(job.id)
                await self._control.move_first(job.id)
            else:
                moments.append(min(at, now + LOOK_S))
        return min(moments, default=None)
