"""JobQueue: the front door of the queue; the bot reaches the store only through it."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from queueing.catalog import Catalog, ModelSpec
from queueing.errors import NotAccepting, Refused, StaleJob
from queueing.fleet import Fleet
from queueing.health import Health
from queueing.jobs import Job, JobEvent, JobState, NewJob
from queueing.ledger import Ledger
from queueing.loader import Loader
from queueing.outcomes import Outcomes
from queueing.outlook import Outlook
from queueing.ports import (
    Admission,
    Backend,
    Clock,
    Event,
    JobChanged,
    Listener,
    MemoryProbe,
    Store,
)
from queueing.preloads import Preloads
from queueing.processor import Processor
from queueing.recovery import recover
from queueing.requests import Capability, Chat, File, Output, TextToImage
from queueing.router import Router
from queueing.times import Times
from queueing.world import Blocked, Reason, Residency, Rules

log = logging.getLogger(__name__)

WAITS_FOR_MEMORY = frozenset(
    {
        Blocked.LOADING,
        Blocked.ROOM_BUSY,
        Blocked.LOADER_BUSY,
        Blocked.RESERVED,
        Blocked.NO_ROOM,
        Blocked.PINNED,
        Blocked.LOAD_PAUSE,
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """Where a job stands, for the person who waits.

    `shown` is "pending", "needs-loading", "ready" or a stored state's value. `position` counts
    from 1 and is None unless the job waits; `back_row` tells that it has no place in line yet.
    `done_at` is the expected moment of its end (UNIX seconds), `done_spread_s` how far it may be
    off; None where nothing can honestly be said.
    """

    job: Job
    shown: str
    position: int | None = None
    back_row: bool = False
    reason: Reason | None = None
    done_at: float | None = None
    done_spread_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyStatus:
    """A copy of a model as people see it."""

    backend: str
    host: str
    residency: Residency
    pinned: bool
    running: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelStatus:
    """A model as people see it: where it is, its line, its usual time and why its line waits."""

    name: str
    waiting: int
    running: int
    copies: tuple[CopyStatus, ...]
    reason: Reason | None
    service_s: float
    next_done_at: float | None  # when a job accepted now would be done


@dataclass(frozen=True, kw_only=True, slots=True)
class BackendStatus:
    """A backend as people see it; `error` is the operator's last failure text."""

    name: str
    host: str
    kind: str
    up: bool
    since: float
    description: str
    error: str | None


class JobQueue:
    """Accepts, cancels and reports jobs; runs the router until cancelled."""

    def __init__(
        self,
        *,
        store: Store,
        catalog: Catalog,
        backends: Mapping[str, Backend],
        clock: Clock,
        rules: Rules | None = None,
        memory: MemoryProbe | None = None,
        runner: str,
        grace_s: float = 8.0,
    ) -> None:
        self._store = store
        self._backends = backends
        self._clock = clock
        self._grace_s = grace_s
        self._listeners: list[Listener] = []
        self._stopping = False
        self._fleet = Fleet(catalog, backends, clock, changed=self._wake)
        self._times = Times(self._fleet, clock)
        ledger = Ledger(store=store, fleet=self._fleet, times=self._times)
        self._health = Health(fleet=self._fleet, backends=backends, memory=memory, clock=clock)
        outcomes = Outcomes(store=store, clock=clock, publish=self._publish)
        self._processor = Processor(
            store=store,
            fleet=self._fleet,
            backends=backends,
            clock=clock,
            outcomes=outcomes,
            publish=self._publish,
            relieve=self._relieve,
            ended=self._times.job_ended,
            wake=self._wake,
            runner=runner,
        )
        self._loader = Loader(
            fleet=self._fleet,
            backends=backends,
            measure=self._health.free_mb,
            fail_waiting=outcomes.fail_waiting,
            loaded=self._times.loaded,
            write_down=ledger.write,
        )
        self._router = Router(
            store=store,
            fleet=self._fleet,
            loader=self._loader,
            processor=self._processor,
            times=self._times,
            ledger=ledger,
            clock=clock,
            rules=rules or Rules(),
            publish=self._publish,
        )
        self._preloads = Preloads(self._fleet, self._loader)
        self._outlook = Outlook(
            router=self._router, fleet=self._fleet, times=self._times, clock=clock
        )

    # ------------------------------------------------------------ accepting

    @property
    def catalog(self) -> Catalog:
        """The models, hosts and backends known now."""
        return self._fleet.catalog

    def extend(self, models: Iterable[ModelSpec]) -> None:
        """Add models found on servers; a name already known keeps its entry."""
        known = self.catalog
        new = {model.name: model for model in models if known.find(model.name) is None}
        self._fleet.catalog = Catalog((*known.models.values(), *new.values()), known.hosts.values())
        self._wake()

    async def submit(self, new: NewJob, *, limits: Admission) -> Job:
        """Accept a job durably. Raises `Refused`. A known key returns the job it made before.

        The model may be given by an alias; its own bound on waiting jobs is added to the limits.
        """
        if self._stopping:
            raise NotAccepting("the queue is stopping")
        spec = self._able(new)
        if limits.max_waiting is None or limits.max_waiting > spec.max_waiting:
            limits = replace(limits, max_waiting=spec.max_waiting)
        job = await self._store.add(replace(new, model=spec.name), self._clock.now(), limits=limits)
        self._times.arrived(job)
        self._publish(JobChanged(job=job, event=None))
        return job

    def _able(self, new: NewJob) -> ModelSpec:
        spec = self.catalog.require(new.model, capability_of(new))
        if not self._fleet.can_ever_serve(spec):
            raise Refused(f"no server can run {spec.name}")
        return spec

    async def cancel(self, job_id: int) -> Job | None:
        """End a job on a person's wish and stop its work on the server; idempotent.

        Returns the job as it is afterwards (perhaps completed: it was faster), None if unknown.
        """
        while (job := await self._store.get(job_id)) is not None and not job.state.final:
            try:
                job = await self._store.apply(job, JobEvent.CANCEL, self._clock.now())
            except StaleJob:
                continue
            self._publish(JobChanged(job=job, event=JobEvent.CANCEL))
            self._processor.cancel(job_id)
            break
        return job

    # ------------------------------------------------------------ models in memory

    async def preload(self, model: str, host: str | None) -> str:
        """Load a model and pin it; return the backend it is on. Raises `Refused`, `BackendError`.

        Waits until it is loaded. Idempotent: a copy already there is pinned.
        """
        return await self._preloads.preload(model, host)

    async def unload(self, model: str, host: str | None) -> Sequence[str]:
        """Unpin a model and unload its copies, busy ones as soon as they are idle.

        Returns the backends it leaves; idle copies have left by then. Raises `Refused`.
        """
        return await self._preloads.unload(model, host)

    # ------------------------------------------------------------ reporting

    async def get(self, job_id: int) -> Job | None:
        """Return a job, or None."""
        return await self._store.get(job_id)

    async def open_jobs(self, owner: str | None = None) -> list[Job]:
        """Return the open jobs of an owner, or of everybody, oldest first."""
        return await self._store.open_jobs(owner)

    async def standings(self, jobs: Sequence[Job]) -> Mapping[int, Standing]:
        """Return where each job stands, by job id."""
        waiting = [job.id for job in jobs if job.state is JobState.PENDING]
        positions = await self._store.positions(waiting) if waiting else {}
        if waiting:
            await self._outlook.refresh(max(waiting))
        return {job.id: self._standing(job, positions.get(job.id)) for job in jobs}

    def _standing(self, job: Job, position: int | None) -> Standing:
        if job.state is JobState.PENDING:
            return self._standing_of_waiting(job, position)
        running = job.state is JobState.PROCESSING
        expected = self._outlook.of_running(job) if running else None
        return Standing(
            job=job,
            shown=job.state.value,
            done_at=None if expected is None else expected.done_at,
            done_spread_s=None if expected is None else expected.spread_s,
        )

    def _standing_of_waiting(self, job: Job, position: int | None) -> Standing:
        reason = self._router.plan.reasons.get(job.model)
        expected = None if position is None else self._outlook.of_waiting(job, position)
        back_row = job.seq is None
        return Standing(
            job=job,
            shown="pending" if back_row else self._shown(job.model, reason),
            position=position,
            back_row=back_row,
            reason=reason,
            done_at=None if expected is None else expected.done_at,
            done_spread_s=None if expected is None else expected.spread_s,
        )

    def _shown(self, model: str, reason: Reason | None) -> str:
        if any(copy.residency is Residency.READY for copy in self._fleet.copies_of(model)):
            return "ready"
        return "needs-loading" if reason and reason.why in WAITS_FOR_MEMORY else "pending"

    def models(self) -> Sequence[ModelStatus]:
        """Return every model's status, in the configuration's order."""
        running = Counter(slot.job.model for slot in self._fleet.slots.values())
        return [self._model_status(spec, running) for spec in self.catalog.models.values()]

    def _model_status(self, spec: ModelSpec, running: Mapping[str, int]) -> ModelStatus:
        return ModelStatus(
            name=spec.name,
            waiting=self._router.waiting(spec.name),
            running=running.get(spec.name, 0),
            copies=tuple(
                CopyStatus(
                    backend=copy.backend,
                    host=self.catalog.host_of[copy.backend],
                    residency=copy.residency,
                    pinned=copy.pinned,
                    running=copy.running,
                )
                for copy in self._fleet.copies_of(spec.name)
            ),
            reason=self._router.plan.reasons.get(spec.name),
            service_s=self._times.durations.typical_service(spec, "").median_s,
            next_done_at=self._outlook.of_next(spec),
        )

    def backends(self) -> Sequence[BackendStatus]:
        """Return every backend's status."""
        return [self._backend_status(name) for name in self._backends]

    def _backend_status(self, name: str) -> BackendStatus:
        health = self._fleet.vitals.of(name)
        return BackendStatus(
            name=name,
            host=self.catalog.host_of[name],
            kind=self.catalog.backends[name].kind,
            up=health.up,
            since=health.since,
            description=health.description,
            error=health.error,
        )

    async def inputs(self, job: Job) -> tuple[File, ...]:
        """Return the files the job was accepted with."""
        return await self._store.inputs(job)

    async def output(self, job: Job) -> Output | None:
        """Return what a completed job produced, None after retention removed it."""
        return await self._store.output(job)

    async def unacknowledged(self) -> list[Job]:
        """Return the jobs that are open, or ended and not yet acknowledged, oldest first."""
        return await self._store.unacknowledged()

    async def acknowledge(self, job: Job) -> None:
        """Note that the person has the job's end. Idempotent."""
        await self._store.acknowledge(job, self._clock.now())

    def subscribe(self, listener: Listener) -> None:
        """Call the listener after every committed change and on progress."""
        self._listeners.append(listener)

    def _publish(self, event: Event) -> None:
        if isinstance(event, JobChanged):
            # An acceptance and an end move nobody who waits; every other change may.
            if event.event in {None, JobEvent.COMPLETE}:
                self._router.wake()
            else:
                self._router.moved(event.job.model)
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed")

    # ------------------------------------------------------------ running

    async def run(self) -> None:
        """Recover, then route until cancelled; then give running jobs their grace and stop."""
        async with asyncio.TaskGroup() as work:
            await recover(
                store=self._store,
                fleet=self._fleet,
                times=self._times,
                processor=self._processor,
                health=self._health,
                work=work,
            )
            try:
                async with asyncio.TaskGroup() as services:
                    services.create_task(self._router.run(work), name="router")
                    for name in self._backends:
                        services.create_task(self._health.watch(name), name=f"health of {name}")
            finally:
                self._stopping = True
                self._loader.stop()
                await self._processor.stop(self._grace_s)

    def _wake(self) -> None:
        self._router.wake()

    async def _relieve(self, host: str) -> None:
        await self._loader.relieve(host)


def capability_of(new: NewJob) -> Capability:
    """Return what a model must be able to do for a request with its pictures."""
    match new.request:
        case TextToImage():
            return Capability.IMAGE_TO_IMAGE if new.files else Capability.TEXT_TO_IMAGE
        case Chat():
            return Capability.VISION if new.files else Capability.TEXT_TO_TEXT
