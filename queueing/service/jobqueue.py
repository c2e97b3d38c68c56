"""JobQueue: the front door of the queue; the bot reaches the store only through it."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from queueing.core.catalog import Catalog, ModelSpec
from queueing.core.errors import NoServer, StaleJob, Unavailable
from queueing.core.events import Event, JobChanged, Listener
from queueing.core.jobs import Job, JobEvent, NewJob
from queueing.core.paused import Paused
from queueing.core.ports import Admission, Backend, Clock, MemoryProbe, Store
from queueing.core.requests import Chat, File, Output, TextToImage
from queueing.core.standings import BackendStatus, HostStatus, ModelStatus, Standing
from queueing.core.world import Reason, Rules
from queueing.engine.availability import is_at_hand
from queueing.service.assembly import assemble
from queueing.service.erasure import Erasure
from queueing.service.recovery import recover

log = logging.getLogger(__name__)


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
        self._parts = parts = assemble(
            store=store,
            catalog=catalog,
            backends=backends,
            clock=clock,
            rules=rules or Rules(),
            memory=memory,
            runner=runner,
            changed=self._wake,
            publish=self._publish,
        )
        self._fleet = parts.fleet
        self._times = parts.times
        self._router = parts.router
        self._processor = parts.processor
        self._preloads = parts.preloads
        self._control = parts.control
        self._reports = parts.reports
        self._erasure = Erasure(store=store, cancel=self.cancel, publish=self._publish)

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
        What comes during a stop waits for the next start.
        """
        spec = self._able(new)
        if limits.max_waiting is None or limits.max_waiting > spec.max_waiting:
            limits = replace(limits, max_waiting=spec.max_waiting)
        job = await self._store.add(replace(new, model=spec.name), self._clock.now(), limits=limits)
        self._times.arrived(job)
        self._publish(JobChanged(job=job, event=None))
        return job

    def _able(self, new: NewJob) -> ModelSpec:
        spec = self.catalog.require(new.model, new.needs)
        if not self._fleet.can_ever_serve(spec):
            troubles = self._fleet.load_failures.troubles(spec.name)
            raise NoServer(spec.name, min((each.again_at for each in troubles), default=None))
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

    async def amend(
        self,
        job_id: int,
        request: TextToImage | Chat,
        *,
        files: Sequence[File] = (),
        reply_to: str | None = None,
    ) -> Job | None:
        """Give a job that never started another request and let it start at once.

        `files` join its inputs, `reply_to` replaces its own. It keeps its place; its hold ends.
        Returns it as it is then, or None when it has started or ended already. Durable.
        """
        job = await self._store.amend(job_id, request, files=files, reply_to=reply_to)
        if job is not None:
            self._publish(JobChanged(job=job, event=None))
        return job

    # ------------------------------------------------------------ models in memory

    def is_at_hand(self, model: str, *, beside: str, within_s: float) -> bool:
        """Return whether a model could answer now for the sake of a job of `beside`.

        It is in memory, or fits without evicting anything and without making anybody wait for its
        load longer than `within_s`; see `queueing.engine.availability`. False for an unknown name.
        """
        spec, served = self.catalog.find(model), self.catalog.find(beside)
        if spec is None or served is None:
            return False
        world = self._router.world
        return is_at_hand(
            self._fleet,
            self._times,
            spec,
            beside=served,
            wanted=[n for n, m in world.models.items() if m.waiting] if world else (),
            within_s=within_s,
            now=self._clock.now(),
        )

    async def preload(self, model: str, host: str | None) -> str:
        """Load a model and pin it; return the backend it is on. Raises `Refused`, `BackendError`.

        Waits until it is loaded. Idempotent: a copy already there is pinned.
        """
        return await self._preloads.preload(model, host)

    async def preload_waits_for(self, model: str, host: str | None) -> Reason | None:
        """Return what would keep a preload from beginning now, by the plan; None where nothing.

        Raises `Refused`, `StoreError`.
        """
        return await self._preloads.waits_for(model, host)

    async def unload(self, model: str, host: str | None) -> Sequence[str]:
        """Unpin a model and unload its copies, busy ones as soon as they are idle.

        Returns the backends it leaves; idle copies have left by then. Raises `Refused`.
        """
        return await self._preloads.unload(model, host)

    # ------------------------------------------------------------ what admins stop and move

    async def pause(self, *, model: str | None = None, host: str | None = None) -> Paused:
        """Start and load nothing more of a model, on a host, or (with neither) at all.

        Durable; what runs goes on to its end, what waits keeps its place. Returns all that is
        paused then. Raises `Refused`. Idempotent.
        """
        return await self._control.pause(model=model, host=host)

    async def resume(self, *, model: str | None = None, host: str | None = None) -> Paused:
        """Lift the pause of a model or a host, or (with neither) every pause there is.

        Returns what is still paused. Raises `Refused`. Idempotent.
        """
        return await self._control.resume(model=model, host=host)

    async def drain(self, host: str) -> None:
        """Pause a host, wait until its work has ended, unload all of it and return.

        Its memory is free then, as far as its servers say; `resume` takes it back. Raises
        `Refused`, `BackendError`; each text is a sentence for an admin.
        """
        await self._control.drain(host)

    async def clear(self, model: str) -> list[Job]:
        """Cancel every waiting job of a model and return them. Raises `Refused`."""
        return await self._control.clear(model)

    async def move_first(self, job_id: int) -> Job | None:
        """Give a waiting job the first place of its line; None when it does not wait.

        The positions of the jobs it passes rise by one. Durable, idempotent.
        """
        return await self._control.move_first(job_id)

    # ------------------------------------------------------------ forgetting

    async def forget(self, owner: str, that: Callable[[Job], bool] = lambda _job: True) -> int:
        """Cancel and really delete a person's jobs, those that `that` picks; return how many.

        Rows, requests, inputs, outputs and whatever refers to a job are gone from the database
        and its log, their bytes overwritten. Not reached are backups made before, what the file
        system or disk keeps of overwritten blocks, what a server of pictures or texts has stored
        itself, and the learned times, which name nobody. Raises `StoreError`; ask again then.
        """
        return await self._erasure.forget(owner, that)

    # ------------------------------------------------------------ reporting

    async def get(self, job_id: int) -> Job | None:
        """Return a job, or None."""
        return await self._store.get(job_id)

    async def find(self, key: str) -> Job | None:
        """Return the job accepted under an idempotency key, or None."""
        return await self._store.find(key)

    async def open_jobs(self, owner: str | None = None) -> list[Job]:
        """Return the open jobs of an owner, or of everybody, oldest first."""
        return await self._store.open_jobs(owner)

    async def standings(self, jobs: Sequence[Job]) -> Mapping[int, Standing]:
        """Return where each job stands, by job id. Raises `StoreError`."""
        return await self._reports.standings(jobs)

    def models(self) -> Sequence[ModelStatus]:
        """Return every model's status, in the configuration's order."""
        return self._reports.models()

    def backends(self) -> Sequence[BackendStatus]:
        """Return every backend's status."""
        return [self._reports.backend(name) for name in self._backends]

    def hosts(self) -> Sequence[HostStatus]:
        """Return every host's status, in the configuration's order."""
        return self._reports.hosts()

    def paused(self) -> Paused:
        """Return what an admin has paused."""
        return self._fleet.paused

    def options(self, model: str) -> frozenset[str] | None:
        """Return the fields of `TextToImage` a model honours wherever it runs; None: all of them.

        The model may be given by an alias. Raises `UnknownModel`.
        """
        spec = self.catalog.named(model)
        known = [self._backends[name].options(spec) for name in self._fleet.serving(spec)]
        limited = [options for options in known if options is not None]
        return frozenset.intersection(*limited) if limited else None

    async def loras(self, model: str) -> tuple[str, ...]:
        """Return the LoRAs the first server of a model has that can be reached.

        Raises `UnknownModel`, and `Unavailable` when none can be.
        """
        spec = self.catalog.named(model)
        failure: Unavailable | None = None
        for name in self._fleet.serving(spec):
            try:
                return await self._backends[name].loras(spec)
            except Unavailable as error:
                failure = error
        raise failure or Unavailable(f"no server runs {spec.name}")

    async def history(self, owner: str, *, limit: int, before: int | None = None) -> list[Job]:
        """Return a person's jobs, open and ended, newest first.

        `before` is the id of a job: only older ones are returned. Enhancements are left out.
        """
        found: list[Job] = []
        while len(found) < limit:
            page = await self._store.history(owner, limit=limit, before=before)
            found += [job for job in page if job.parent is None]
            if len(page) < limit:
                break
            before = page[-1].id
        return found[:limit]

    async def inputs(self, job: Job) -> tuple[File, ...]:
        """Return the files the job was accepted with."""
        return await self._store.inputs(job)

    async def output(self, job: Job) -> Output | None:
        """Return what a completed job produced, None after retention removed it."""
        return await self._store.output(job)

    async def unacknowledged(self, owner: str | None = None) -> list[Job]:
        """Return the jobs that are open, or ended and not yet acknowledged, oldest first."""
        return await self._store.unacknowledged(owner)

    async def to_tell(self, after: int, limit: int) -> list[Job]:
        """Return so many waiting jobs after a number; with 0, all that run or ended untold first."""
        return await self._store.to_tell(after, limit)

    async def acknowledge(self, job: Job) -> None:
        """Note that the person has the job's end. Idempotent."""
        await self._store.acknowledge(job, self._clock.now())

    def subscribe(self, listener: Listener) -> None:
        """Call the listener after every committed change and on progress."""
        self._listeners.append(listener)

    def _publish(self, event: Event) -> None:
        if isinstance(event, JobChanged):
            # An acceptance and an end move nobody who waits; every other change may.
            match event.event:
                case None:
                    self._router.wake()
                case JobEvent.START:
                    self._router.started(event.job.model)
                case JobEvent.COMPLETE:
                    self._router.ended()
                case _:
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
            try:
                await recover(self._store, self._parts, work)
                async with asyncio.TaskGroup() as services:
                    services.create_task(self._router.run(work), name="router")
                    for name in self._backends:
                        watch = self._parts.health.watch(name)
                        services.create_task(watch, name=f"health of {name}")
            finally:
                self._parts.loader.stop()
                await self._processor.stop(self._grace_s)

    def _wake(self) -> None:
        self._router.wake()
        self._control.look()
