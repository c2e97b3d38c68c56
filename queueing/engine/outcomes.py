"""Stores the outcomes of jobs and publishes them once they are durable."""

import asyncio
import itertools
import logging
from dataclasses import dataclass
from functools import partial

from queueing.core.errors import Problem, StaleJob, StoreError
from queueing.core.events import JobChanged, Produced
from queueing.core.jobs import Job, JobEvent, JobState
from queueing.core.ports import Clock
from queueing.core.requests import Output
from queueing.engine.event_bus import EventBus
from queueing.planning.retry import pause_s
from queueing.store.jobs.job_store import JobStore

log = logging.getLogger(__name__)

LONGEST_STORE_PAUSE_S = 30.0
NAMED_MOST = 20  # jobs named in one log line


@dataclass(kw_only=True, eq=False, repr=False)
class Outcomes:
    """Stores outcomes for the job runner and the loader."""

    jobs: JobStore
    clock: Clock
    bus: EventBus

    async def conclude(
        self,
        job: Job,
        event: JobEvent,
        *,
        not_before: float = 0.0,
        problem: Problem | None = None,
        output: Output | None = None,
        suspect: bool = False,
        gpu_s: float = 0.0,
    ) -> None:
        """Store an outcome, retrying until it succeeds: a full disk must not lose finished work.

        Does nothing if another change came first.
        """
        for failures in itertools.count(1):
            try:
                change = self.jobs.apply(
                    job,
                    event,
                    self.clock.now(),
                    not_before=not_before,
                    error=_code(problem),
                    output=output,
                    suspect=suspect,
                    gpu_s=gpu_s,
                )
                await self.bus.after(change, partial(self._follow, output))
            except StaleJob:
                log.info("job %d: another change came before its %s", job.id, event.value)
                return
            except StoreError as failure:
                log.warning("job %d: its %s is not stored yet: %s", job.id, event.value, failure)
                await asyncio.sleep(min(pause_s(failures), LONGEST_STORE_PAUSE_S))
            else:
                return

    def _follow(self, output: Output | None, change: JobChanged) -> None:
        if output is not None:
            self.bus.publish(Produced(job_id=change.job.id, output=output))
        self.bus.publish(change)

    async def give_back(self, job: Job, event: JobEvent, *, problem: Problem | None = None) -> None:
        """Return an interrupted job to its queue or end it, unless its end is already stored.

        Tries only once. If the database fails, the job stays in state processing and is recovered
        at the next start.
        """
        now = self.clock.now()
        try:
            current = await self.jobs.get(job.id)
            if current is None or current.state is not JobState.PROCESSING:
                return
            change = self.jobs.apply(
                current,
                event,
                now,
                not_before=now,
                error=_code(problem),
                suspect=current.suspect,
            )
            await self.bus.after(change, self.bus.publish)
        except (StaleJob, StoreError) as failure:
            log.warning("job %d: could not be returned to its queue: %s", job.id, failure)
        except Exception:
            log.exception("job %d: could not be returned to its queue", job.id)

    async def fail_waiting(self, model: str, problem: Problem, cause: str) -> None:
        """Fail every waiting job of a model; `cause` is for the log."""
        try:
            jobs = await self.jobs.open_jobs()
        except StoreError as failure:
            log.warning("waiting jobs of %s could not be failed: %s", model, failure)
            return
        waiting = [job for job in jobs if job.model == model and job.state is JobState.PENDING]
        if waiting:
            named = ", ".join(str(job.id) for job in waiting[:NAMED_MOST])
            more = f" and {len(waiting) - NAMED_MOST} more" if len(waiting) > NAMED_MOST else ""
            log.warning("jobs %s%s of %s fail: %s", named, more, model, cause)
        await asyncio.gather(
            *(self.conclude(job, JobEvent.FAIL, problem=problem) for job in waiting)
        )


def _code(problem: Problem | None) -> str | None:
    return None if problem is None else problem.code()
