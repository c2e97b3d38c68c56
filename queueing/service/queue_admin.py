"""An admin's actions on the queue: pausing, draining hosts, clearing queues, moving jobs.

Every change is durable before it takes effect.
"""

import asyncio
import logging
from collections.abc import Callable

from queueing.core.catalog import Catalog
from queueing.core.errors import ProblemKind, Refused, StaleJob, StoreError, Unavailable, problem
from queueing.core.jobs import Job, JobEvent, JobState
from queueing.core.ports import Clock
from queueing.core.status import Pauses
from queueing.engine.event_bus import EventBus
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.health_checker import HealthChecker
from queueing.engine.loader import Loader
from queueing.engine.scheduler import Scheduler
from queueing.store.jobs.job_store import JobStore

log = logging.getLogger(__name__)

AWAKE_S = 12 * 3600.0  # how long a host may keep working on a GPU that another program uses


class LocalQueueAdmin:
    """Carries out admins' requests. Call `look` after every change of the fleet."""

    def __init__(
        self,
        *,
        jobs: JobStore,
        fleet: Fleet,
        loader: Loader,
        router: Scheduler,
        health: HealthChecker,
        clock: Clock,
        bus: EventBus,
    ) -> None:
        self._jobs = jobs
        self._fleet = fleet
        self._loader = loader
        self._clock = clock
        self._router = router
        self._looked = health.first_looked
        self._bus = bus
        self._changing = asyncio.Lock()
        self._fleet_changed = asyncio.Event()

    def look(self) -> None:
        """Check whether a host that is being drained is empty. Cheap."""
        self._fleet_changed.set()

    # ------------------------------------------------------------ pauses

    async def pause(self, *, model: str | None = None, host: str | None = None) -> Pauses:
        """Stop starts and loads of a model, on a host, or (with neither) everywhere.

        Running work ends normally. Returns everything that is paused then. Raises `Refused`,
        `StoreError`. Idempotent.
        """
        name, hosts = self._known(model, host)

        def change(paused: Pauses) -> Pauses:
            for each in hosts:
                paused = paused.adding(model=name, host=each)
            return paused

        return await self._change(change)

    async def resume(self, *, model: str | None = None, host: str | None = None) -> Pauses:
        """Lift the pause of a model or a host, or (with neither) every pause.

        A model's own pause is lifted even while everything is paused, but it stays stopped until
        that ends. A resting host works until its quiet hours end or another program leaves its GPU,
        for at most twelve hours. Returns what is still paused. Raises `Refused`, `StoreError`.
        Idempotent.
        """
        name, hosts = self._known(model, host)
        rests = {each: None if each is None else self._fleet.rests.until(each) for each in hosts}

        def change(paused: Pauses) -> Pauses:
            for each, until in rests.items():
                paused = paused.without(model=name, host=each)
                if each is not None and until is not None:
                    paused = paused.waking(each, min(until, self._clock.now() + AWAKE_S))
            return paused

        return await self._change(change)

    async def rested(self, host: str) -> None:
        """End an admin's override of a host's rest, once the reason that it overrode is gone."""
        if host in self._fleet.rests.paused.awake:
            try:
                await self._change(lambda paused: paused.asleep(host))
            except StoreError as error:
                log.warning("%s keeps working while another program runs: %s", host, error)

    def _known(
        self, model: str | None, host: str | None
    ) -> tuple[str | None, tuple[str | None, ...]]:
        """Return the model's name in the catalog, and the hosts a name refers to, None for none."""
        catalog = self._fleet.catalog
        hosts = (None,) if host is None else _hosts_named(catalog, host)
        return None if model is None else catalog.named(model).name, hosts

    async def _change(self, change: Callable[[Pauses], Pauses]) -> Pauses:
        async with self._changing:  # read from the store, because the fleet is empty at first
            paused = change(await self._jobs.paused())
            await self._jobs.note_paused(paused)
            self._fleet.rests.pause(paused)
        log.info("paused: %s", _words(paused))
        return paused

    # ------------------------------------------------------------ giving a GPU back

    async def drain(self, host: str) -> None:
        """Pause a host, wait until its running work has ended, and unload every copy.

        Returns when its memory is free as far as its servers report. Pinned models are unloaded as
        well and come back after `resume`. Raises `Refused` if there is no such host or it is
        resumed during the wait. Raises `Unavailable` if a server does not answer or cannot unload;
        the host then stays paused. After a crash the host may be paused but not empty: call again.
        """
        await self.pause(host=host)
        await self._looked.wait()
        hosts = _hosts_named(self._fleet.catalog, host)
        while not all(self._is_quiet(each) for each in hosts):
            if not self._fleet.rests.paused.hosts.issuperset(hosts):
                why = problem(ProblemKind.RESUMED, host=host)
                raise Refused(f"{host} was resumed before it was empty", problem=why)
            self._fleet_changed.clear()
            await self._fleet_changed.wait()
        for each in hosts:
            await self._loader.empty(each)
        for each in hosts:
            self._check_empty(each)
        log.info("%s is drained", host)

    def _is_quiet(self, host: str) -> bool:
        busy = {slot.backend for slot in self._fleet.jobs.slots.values()}
        servers = {spec.name for spec in self._fleet.catalog.hosts[host].backends}
        return self._fleet.memory.quiet(host) and not busy & servers

    def _check_empty(self, host: str) -> None:
        left = self._fleet.copies.on(host)
        if left:
            names = ", ".join(f"{copy.model} on {copy.backend}" for copy in left)
            raise Unavailable(f"{names} must be unloaded by hand: its server cannot unload it")
        silent = [
            spec.name
            for spec in self._fleet.catalog.hosts[host].backends
            if not self._fleet.health.of(spec.name).up
        ]
        if silent:
            raise Unavailable(f"{', '.join(silent)} does not answer and may still hold memory")

    # ------------------------------------------------------------ queues

    async def clear(self, model: str) -> list[Job]:
        """Cancel every waiting job of a model, overflow included. Running ones continue.

        The cancelled jobs do not count against their owners' hourly limits. Returns them, oldest
        first. Raises `Refused`, `StoreError`.
        """
        name = self._fleet.catalog.named(model).name
        waiting = [job for job in await self._jobs.open_jobs() if job.model == name]
        # The newest first, so that no overflow job enters the queue only to be cancelled there.
        withdrawn = await asyncio.gather(*(self._withdraw(job) for job in reversed(waiting)))
        return [job for job in reversed(withdrawn) if job is not None]

    async def _withdraw(self, job: Job | None) -> Job | None:
        """Cancel a job unless it has started or ended."""
        while job is not None and job.state is JobState.PENDING:
            try:
                withdrawing = self._jobs.apply(
                    job, JobEvent.CANCEL, self._clock.now(), gives_back=True
                )
                return (await self._bus.after(withdrawing, self._bus.publish)).job
            except StaleJob:
                job = await self._jobs.get(job.id)
        return None

    async def move_first(self, job_id: int) -> Job | None:
        """Move a waiting job to the first place of its queue, within its lane.

        The positions of the jobs it passes rise by one. Returns None if it does not wait. Raises
        `StoreError`. Idempotent.
        """
        return await self._bus.after(self._jobs.move_first(job_id), self._moved)

    def _moved(self, job: Job | None) -> None:
        if job is not None:
            log.info("job %d: moved to the front of its queue", job.id)
            self._router.moved(job.model)


def _hosts_named(catalog: Catalog, host: str) -> tuple[str, ...]:
    """Return a host, or all GPUs of a machine with several. Raises `Refused` for neither."""
    hosts = catalog.gpus(host)
    if not hosts:
        raise Refused(f"no such host: {host}", problem=problem(ProblemKind.GONE, name=host))
    return hosts


def _words(paused: Pauses) -> str:
    names = sorted(paused.models) + sorted(paused.hosts)
    return ", ".join(["everything"] * paused.everything + names) or "nothing"
