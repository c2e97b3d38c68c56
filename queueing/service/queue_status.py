"""Reports the state of jobs, models, servers and hosts in people's terms. Changes nothing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from queueing.core.jobs import LATER, Job, JobState, StartOrder
from queueing.core.ports import Clock
from queueing.core.snapshot import Reason, Residency, WaitCause, is_open_ended
from queueing.core.specs import ModelSpec
from queueing.core.status import (
    BackendStatus,
    CopyStatus,
    Estimate,
    HostStatus,
    ModelStatus,
    Readiness,
    RunningStatus,
    Standing,
    StatusReport,
)
from queueing.engine.deferred_jobs import DeferredJobs
from queueing.engine.fair.fair_queues import FairQueues
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.fleet.learned_times import LearnedTimes
from queueing.engine.fleet.running_jobs import Slot
from queueing.engine.scheduler import Scheduler
from queueing.planning.hosts import sites
from queueing.planning.lanes import Lane, competing, place
from queueing.service.deadlines import surely_done_at
from queueing.service.estimator import Estimator
from queueing.service.shown_estimates import Promises, ShownEstimates, before
from queueing.store.jobs.job_store import JobStore

WAITS_FOR_MEMORY = frozenset(
    {
        WaitCause.LOADING,
        WaitCause.ROOM_BUSY,
        WaitCause.LOADER_BUSY,
        WaitCause.RESERVED,
        WaitCause.NO_ROOM,
        WaitCause.PINNED,
        WaitCause.KEPT,
        WaitCause.LOAD_PAUSE,
    }
)


def readiness(there: Sequence[CopyStatus], reason: Reason | None) -> Readiness:
    """Return whether a model can start a job, from its copies and the reason its jobs wait."""
    places = {copy.residency for copy in there}
    if Residency.READY in places:
        return Readiness.READY
    waits = reason is not None and reason.why in WAITS_FOR_MEMORY
    return Readiness.NEEDS_LOADING if waits or Residency.LOADING in places else Readiness.ABSENT


def copy_statuses(fleet: Fleet, model: str) -> tuple[CopyStatus, ...]:
    """Return the status of every copy of a model."""
    return tuple(
        CopyStatus(
            backend=copy.backend,
            host=fleet.catalog.host_of[copy.backend],
            residency=copy.residency,
            pinned=copy.pinned,
            running=copy.running,
            vram_mb=copy.vram_mb,
            ready_at=copy.ready_at,
            shares=copy.shares,
            ahead=copy.ahead,
        )
        for copy in fleet.copies.of(model)
    )


def backend_statuses(fleet: Fleet) -> tuple[BackendStatus, ...]:
    """Return the status of every backend, in the configuration's order."""
    catalog = fleet.catalog
    return tuple(
        BackendStatus(
            name=name,
            host=catalog.host_of[name],
            hosts=catalog.hosts_of[name],
            kind=spec.kind,
            url=spec.address,
            up=(health := fleet.health.of(name)).up,
            since=health.since,
            description=health.description,
            error=health.error,
        )
        for name, spec in catalog.backends.items()
    )


def host_statuses(fleet: Fleet) -> tuple[HostStatus, ...]:
    """Return the status of every host, in the configuration's order."""
    return tuple(
        HostStatus(
            name=host.name,
            vram_mb=host.vram_mb,
            usable_mb=fleet.memory.usable_mb(host.name),
            used_mb=fleet.memory.held_mb(host.name),
            paused=fleet.rests.paused.stops_host(host.name),
            foreign_mb=fleet.memory.budget.foreign_mb(host.name),
            budget_mb=host.usable_mb,
            unmeasured_since=fleet.memory.budget.unmeasured_since(host.name),
            rest=fleet.rests.why(host.name),
            awake_until=fleet.rests.awake_until(host.name),
        )
        for host in fleet.catalog.hosts.values()
    )


_TAKES_TURNS = frozenset(
    {
        WaitCause.ROOM_BUSY,
        WaitCause.LOADER_BUSY,
        WaitCause.RESERVED,
        WaitCause.GATED,
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Queue:
    """What all waiting jobs of a model have in common at one moment."""

    reason: Reason | None
    ready: bool
    lanes: Sequence[Lane]

    def shown(self, reason: Reason | None) -> str:
        """Return the model's state as shown for a job that waits for this reason."""
        if self.ready:
            return "ready"
        return "needs-loading" if reason and reason.why in WAITS_FOR_MEMORY else "pending"


@dataclass(kw_only=True, eq=False, repr=False)
class LocalQueueStatus:
    """Answers questions about the queue, from memory except for positions and queues."""

    jobs: JobStore
    queues: FairQueues
    fleet: Fleet
    router: Scheduler
    eta: Estimator
    times: LearnedTimes
    clock: Clock
    weights: Mapping[str, int]
    promises: Promises
    later: DeferredJobs
    _shown: ShownEstimates = field(default_factory=ShownEstimates, init=False)

    def weigh(self, weights: Mapping[str, int]) -> None:
        """Change the lane weights used to calculate positions."""
        self.weights = weights

    # ------------------------------------------------------------ jobs

    async def decided(self, jobs: Sequence[Job]) -> None:
        """Wait, at most half a second, until each new job runs or has a reason to wait."""
        await self.router.decided.about(jobs)

    async def standings(self, jobs: Sequence[Job]) -> Mapping[int, Standing]:
        """Return the status of each job, by id, without waiting for a decision.

        Raises `StoreError`.
        """
        jobs = [await self._refreshed(job) for job in jobs]
        waiting = [job for job in jobs if job.state is JobState.PENDING]
        if not waiting:
            return {job.id: self._standing(job) for job in jobs}
        ids = [job.id for job in waiting]
        positions = await self.queues.positions(ids)
        queued = [
            (job, positions[job.id]) for job in waiting if job.id in positions and not job.held
        ]
        await self.eta.refresh(queued)
        # Nothing but memory is read from here on, so places, reasons and times are of one moment.
        positions = await self.queues.positions(ids)
        turns = await self.queues.turns(ids, begun=self.fleet.jobs.slots.keys())
        counts = {job.model: turns[job.id].lanes for job in waiting if job.id in turns}
        queues = {name: self._queue(name, counts) for name in {job.model for job in waiting}}
        return {
            job.id: self._standing_of_waiting(
                job, queues[job.model], positions.get(job.id), turns.get(job.id)
            )
            if job.state is JobState.PENDING
            else self._standing(job)
            for job in jobs
        }

    async def _refreshed(self, job: Job) -> Job:
        """Return the newest state of a job. Entering its queue causes no event, for example."""
        if (
            slot := self.fleet.jobs.slots.get(job.id)
        ) is not None and slot.job.version > job.version:
            return slot.job
        if job.seq is not None or job.state is not JobState.PENDING:
            return job
        return await self.jobs.get(job.id) or job

    def _standing(self, job: Job) -> Standing:
        running = job.state is JobState.PROCESSING
        outlook = self.eta.of_running(job) if running else None
        ends = None if outlook is None else self._promised(job, outlook.ends)
        return Standing(job=job, shown=job.state.value, ends=ends)

    def _queue(self, model: str, counts: Mapping[str, Mapping[str, int]]) -> _Queue:
        if model in self.fleet.catalog.models:
            reason = self.router.plan.reasons.get(model)
        else:  # it or its server was removed from the configuration
            reason = Reason(why=WaitCause.OFFLINE, model=model)
        spent = self.router.plan.lane_spent
        return _Queue(
            reason=reason,
            ready=any(c.residency is Residency.READY for c in self.fleet.copies.of(model)),
            lanes=competing(model, self._startable(model, counts), spent, self.weights),
        )

    def _startable(self, model: str, counts: Mapping[str, Mapping[str, int]]) -> Mapping[str, int]:
        """Return how many jobs of each lane could start.

        Deferred jobs count only if the planner sees them.
        """
        lanes = counts.get(model, {})
        view = self.router.latest.models.get(model) if self.router.latest else None
        seen = [queue.count for queue in view.waiting if queue.lane == LATER] if view else []
        return {**lanes, LATER: sum(seen)} if LATER in lanes else lanes

    def _standing_of_waiting(
        self, job: Job, queue: _Queue, in_lane: int | None, turn: StartOrder | None
    ) -> Standing:
        reason = queue.reason
        if (
            job.lane == LATER
            and job.id not in self.fleet.jobs.slots
            and not self.later.is_shown(job)
        ):
            reason = Reason(why=WaitCause.LATER, model=job.model, until=job.due_at)
            return Standing(job=job, shown="pending", reason=reason)
        if job.held:  # when it may start is unknown
            return Standing(
                job=job, shown="pending", reason=Reason(why=WaitCause.HELD, model=job.model)
            )
        if job.id in self.fleet.jobs.slots:  # its start is being stored
            reason = Reason(why=WaitCause.STARTING, model=job.model)
        elif job.sendings and job.not_before > self.clock.now():
            until = job.not_before
            reason = Reason(why=WaitCause.RETRY_PAUSE, model=job.model, until=until)
        outlook = None
        if in_lane is not None and not is_open_ended(reason):
            outlook = self.eta.of_waiting(job, in_lane)
        ends = None
        if not is_open_ended(reason):
            ends = self._promised(job, None if outlook is None else outlook.ends)
        if job.due_at is not None and ends is not None and self._is_late(job, ends.latest, reason):
            reason = Reason(why=WaitCause.LATE, model=job.model, until=job.due_at)
        competes = any(lane.name == job.lane for lane in queue.lanes)  # once the planner sees it
        number = turn.number if turn is not None and competes else None
        position = None if number is None else place(queue.lanes, job.lane, number)
        return Standing(
            job=job,
            shown="pending" if job.seq is None else queue.shown(reason),
            position=position,
            overtaken=0 if position is None or number is None else position - number,
            overflow=job.seq is None,
            reason=reason,
            starts=None if outlook is None or ends is None else before(outlook.starts, ends),
            ends=ends,
        )

    def _is_late(self, job: Job, done_at: float, reason: Reason | None) -> bool:
        """Whether a job may miss its deadline."""
        snapshot = self.router.latest
        if reason is not None and reason.why in _TAKES_TURNS and snapshot is not None:
            model = snapshot.models.get(job.model)
            known = () if model is None else sites(snapshot, model)
            done_at = surely_done_at(done_at, self.clock.now(), known)
        return job.due_at is not None and done_at > job.due_at

    def _promised(self, job: Job, fresh: Estimate | None) -> Estimate | None:
        """Return the end of a job as shown to people; the first range is kept as a promise."""
        now = self.clock.now()
        ends = self._shown.of((job.id, job.state), fresh, now)
        if ends is not None:
            self.promises.tell(job.id, ends, now)
        return ends

    # ------------------------------------------------------------ models, servers, hosts

    def snapshot(self) -> StatusReport:
        """Return the present state of models, servers and hosts."""
        return StatusReport(
            models=self._models(),
            backends=backend_statuses(self.fleet),
            hosts=host_statuses(self.fleet),
            paused=self.fleet.rests.paused,
            running=tuple(self._running(slot) for slot in self.fleet.jobs.slots.values()),
        )

    def _running(self, slot: Slot) -> RunningStatus:
        job = replace(slot.job, state=JobState.PROCESSING)
        outlook = self.eta.of_running(job)
        fresh = None if outlook is None else outlook.ends
        return RunningStatus(
            job_id=job.id,
            model=job.model,
            backend=slot.backend,
            owner=job.owner,
            began_at=slot.began_at,
            ends=self._shown.look_up((job.id, job.state), fresh, self.clock.now()),
            fraction=slot.fraction,
        )

    def _models(self) -> tuple[ModelStatus, ...]:
        self.eta.look()
        running = Counter(slot.job.model for slot in self.fleet.jobs.slots.values())
        return tuple(self._model(spec, running) for spec in self.fleet.catalog.models.values())

    def _why_rests(self, spec: ModelSpec) -> Reason | None:
        """Return why a model without waiting jobs could not start one: all its hosts rest."""
        hosts_of = self.fleet.catalog.hosts_of
        up = [name for name in self.fleet.serving(spec) if self.fleet.health.of(name).up]
        found = [
            next((r for host in hosts_of[name] if (r := self.fleet.rests.why(host))), None)
            for name in up
        ]
        rests = [reason for reason in found if reason is not None]
        if not found or len(rests) < len(found):
            return None
        return replace(min(rests, key=lambda reason: reason.until or inf), model=spec.name)

    def _model(self, spec: ModelSpec, running: Mapping[str, int]) -> ModelStatus:
        reason, there = (
            self.router.plan.reasons.get(spec.name),
            copy_statuses(self.fleet, spec.name),
        )
        service = self.times.durations.typical_service(spec, "")
        return ModelStatus(
            name=spec.name,
            waiting=self.router.waiting(spec.name),
            running=running.get(spec.name, 0),
            copies=there,
            reason=reason or self._why_rests(spec),
            service_s=service.median_s if service.samples else None,
            next_ends=self.eta.of_next(spec),
            vram_mb=self.fleet.memory.known_vram_mb(spec),
            paused=self.fleet.rests.paused.stops_model(spec.name),
            troubles=self.fleet.load_failures.troubles(spec.name),
            oldest_at=self.router.oldest_at(spec.name),
            lanes=self.router.lanes(spec.name),
            readiness=readiness(there, reason),
        )
