"""Accepts, changes and cancels jobs at a person's request, and deletes them for good."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from queueing.core.constructors import altering
from queueing.core.errors import NoServer, Problem, StaleJob
from queueing.core.events import Erased, Forgotten, JobChanged
from queueing.core.jobs import Job, JobEvent, JobState, NewJob, SubmitLimits
from queueing.core.ports import Clock
from queueing.core.requests import File, Request
from queueing.core.specs import ModelSpec
from queueing.engine.event_bus import EventBus
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.fleet.learned_times import LearnedTimes
from queueing.engine.job_runner import JobRunner
from queueing.forecast.durations import size_class
from queueing.store.jobs.job_store import JobStore

_limited = altering(SubmitLimits)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LocalJobSubmitter:
    """Accepts, changes and ends jobs. Every change is durable when a call returns."""

    jobs: JobStore
    fleet: Fleet
    times: LearnedTimes
    processor: JobRunner
    clock: Clock
    bus: EventBus

    async def submit(self, new: NewJob, *, limits: SubmitLimits) -> Job:
        """Accept a job durably. A known key returns the job it made before. Raises `Refused`.

        The model may be given by an alias. Its own limit on waiting jobs is added to `limits`. A
        job that arrives during a stop waits for the next start.
        """
        spec = self._able(new)
        if limits.max_waiting is None or limits.max_waiting > spec.max_waiting:
            limits = _limited(limits, max_waiting=spec.max_waiting)
        limited = limits.max_gpu_s is not None
        if limited or new.model != spec.name:
            new = replace(new, model=spec.name, gpu_s=self._cost_s(spec, new) if limited else 0.0)
        adding = self.jobs.add(new, self.clock.now(), limits=limits)
        return await self.bus.after(adding, self._accepted)

    def _cost_s(self, spec: ModelSpec, new: NewJob) -> float:
        """Return the expected GPU time of a request in seconds, without other jobs on the GPU."""
        return self.times.durations.service(spec, "", size_class(new.request)).median_s

    def _accepted(self, job: Job) -> None:
        self.times.arrived(job)
        self._amended(job)

    def _amended(self, job: Job | None) -> None:
        if job is not None:
            self.bus.publish(JobChanged(job=job, event=None))

    def _able(self, new: NewJob) -> ModelSpec:
        spec = self.fleet.catalog.require(new.model, new.needs)
        if not self.fleet.can_ever_serve(spec):
            troubles = self.fleet.load_failures.troubles(spec.name)
            raise NoServer(spec.name, min((each.again_at for each in troubles), default=None))
        return spec

    async def cancel(self, job_id: int) -> Job | None:
        """Cancel a job at a person's request and stop its work on the server. Idempotent.

        Returns the resulting job, which may have completed first. None if unknown.
        """
        return await self._end(job_id, JobEvent.CANCEL)

    async def give_up(self, job_id: int, problem: Problem) -> Job | None:
        """End a job that never started as failed, because what it waited for is unavailable.

        Idempotent. Returns the resulting job, None if unknown.
        """
        return await self._end(job_id, JobEvent.FAIL, problem.code())

    async def _end(self, job_id: int, event: JobEvent, error: str | None = None) -> Job | None:
        while (job := await self.jobs.get(job_id)) is not None and not job.state.final:
            if event is JobEvent.FAIL and job.state is not JobState.PENDING:
                return job
            try:
                ran = event is JobEvent.CANCEL and job.state is JobState.PROCESSING
                taken_s = self.fleet.jobs.meter.taken_s(job_id) if ran else 0.0
                ending = self.jobs.apply(job, event, self.clock.now(), error=error, gpu_s=taken_s)
                return (await self.bus.after(ending, self._cancelled)).job
            except StaleJob:
                continue
        return job

    def _cancelled(self, cancelled: JobChanged) -> None:
        self.bus.publish(cancelled)
        self.processor.cancel(cancelled.job.id)

    async def replace_request(
        self,
        job_id: int,
        request: Request,
        *,
        files: Sequence[File] = (),
        reply_to: str | None = None,
        release: bool = True,
        version: int | None = None,
    ) -> Job | None:
        """Replace the request of a job that never started, and let it start at once.

        It keeps its place. `files` are added to its inputs, `reply_to` replaces its own. Its delay
        ends if `release` is set. Returns the changed job, or None if it has started or ended, or
        has another `version`.
        """
        replacing = self.jobs.replace_request(
            job_id, request, files=files, reply_to=reply_to, release=release, version=version
        )
        return await self.bus.after(replacing, self._amended)


log = logging.getLogger(__name__)

_PAGE = 200


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LocalJobEraser:
    """Cancels and deletes jobs for good."""

    jobs: JobStore
    submitter: LocalJobSubmitter
    bus: EventBus

    async def forget(self, owner: str, job_ids: frozenset[int] | None = None) -> int:
        """Cancel and delete a person's jobs, or only those given. Returns the number deleted.

        Jobs made for one of them, such as its enhancement, are deleted as well. Raises
        `StoreError`. Then, and after a crash, repeat the call to delete the rest.
        """
        jobs = await self._all_of(owner)
        chosen = [
            job for job in jobs if job_ids is None or job.id in job_ids or job.parent in job_ids
        ]
        for job in (
            chosen
        ):  # the newest first, so that no overflow job enters the queue only to be cancelled
            if not job.state.final:
                await self.submitter.cancel(job.id)
        ids = [job.id for job in chosen]
        # Announced before the rows are deleted: a listener that still shows one would find it
        # missing.
        self.bus.publish(Forgotten(job_ids=frozenset(ids)))
        erased = await self.jobs.erase(ids)
        self.bus.publish(Erased(job_ids=frozenset(ids)))
        log.info("jobs deleted for good at their owner's request: %d", erased)
        return erased

    async def _all_of(self, owner: str) -> list[Job]:
        jobs: list[Job] = []
        while True:
            before = jobs[-1].id if jobs else None
            page = await self.jobs.history(owner, limit=_PAGE, before=before, made_for_jobs=True)
            jobs += page
            if len(page) < _PAGE:
                return jobs
