"""The queue in this process. The bot uses its parts through `bot.core.service`.

A start restores the state of the last run, however that ended, before the first plan. It starts no
job that was not running already.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping

from queueing.core.catalog import Catalog, Offers
from queueing.core.concurrency import TaskGroup
from queueing.core.events import Stopping
from queueing.core.ports import Backend, Clock, GpuWatch, HostControl, MemoryProbe
from queueing.core.snapshot import LONG_QUEUE, Rules
from queueing.engine.event_bus import EventBus
from queueing.engine.fleet.fleet import Fleet
from queueing.service.assembly import Engine, Given, assemble
from queueing.service.reconfiguration import Reconfiguration, pin_configured
from queueing.store.jobs.job_store import JobStore

log = logging.getLogger(__name__)


class JobQueue:
    """Runs the scheduler until cancelled, and exposes the parts of the queue.

    The parts can be used before and after `run`: jobs accepted then wait for a start.
    """

    def __init__(
        self,
        *,
        store: JobStore,
        catalog: Catalog,
        backends: Mapping[str, Backend],
        clock: Clock,
        rules: Rules | None = None,
        memory: MemoryProbe | None = None,
        gpus: GpuWatch | None = None,
        machines: HostControl | None = None,
        runner: str,
        grace_s: float = 8.0,
        long_queue: Callable[[], int] = lambda: LONG_QUEUE,
        offers: Offers = lambda _catalog, _model: True,
        held: Callable[[], bool] = lambda: True,
    ) -> None:
        """Assemble the queue. The log warns of queues that reach `long_queue()` jobs.

        Only a model for which `offers` returns True is loaded ahead.
        Nothing is sent to a server while `held()` is false, that is, while another process has the
        queue.
        """
        self._grace_s = grace_s
        self._given = Given(
            store=store,
            catalog=catalog,
            backends=dict(backends),
            clock=clock,
            rules=rules or Rules(),
            memory=memory,
            gpus=gpus,
            machines=machines,
            runner=runner,
            bus=EventBus(),
            long_queue=long_queue,
            offers=offers,
            held=held,
        )
        self._engine, parts = assemble(self._given)
        self._moments = parts.moments
        self.submitter = parts.submitter
        self.jobs = store
        self.deliveries = store
        self.models = parts.models
        self.status = parts.status
        self.admin = parts.admin
        self.preloads = parts.preloads
        self.erasure = parts.erasure
        self.promises = parts.promises
        self.hosts = parts.hosts
        self.reconfiguration = Reconfiguration(self._given, self._engine, parts.status)
        self.events = self._given.bus
        self.events.watch_fleet(self.reconfiguration.look)

    @property
    def backends(self) -> Mapping[str, Backend]:
        """The present servers, by name."""
        return self._given.backends

    async def run(self) -> None:
        """Recover, then schedule until cancelled, then stop. Running jobs get `grace_s` to end."""
        engine = self._engine
        async with TaskGroup() as work:
            try:
                await recover(self._given.store, engine, work)
                async with TaskGroup() as services:
                    services.create_task(engine.router.run(work), name="router")
                    services.create_task(engine.others.watch(), name="other programs")
                    services.create_task(self._moments.run(), name="moments")
                    with engine.health.watching(services):
                        await self.reconfiguration.run()
            finally:
                self._given.bus.publish(Stopping())
                engine.loader.stop()
                await engine.processor.stop(self._grace_s)
                await self._given.bus.settle()


async def recover(store: JobStore, engine: Engine, work: TaskGroup) -> None:
    """Restore pauses, learned times, pins, running jobs and the known copies in memory.

    Waiting jobs need nothing: the store has their places. Raises `StoreError`.
    """
    fleet = engine.fleet
    fleet.rests.pause(await store.paused())
    engine.times.restore(await store.learned(), await store.scores())
    fleet.memory.budget.restore(await store.sizes())
    noted = await _noted_copies(store, fleet)
    pin_configured(fleet)
    running = await store.processing()
    if engine.fair.is_wanted:
        used, passed = await store.gpu_quarters(0.0), await store.overtaking()
        engine.fair.begin(used, running, passed)
    for job in running:
        log.info("job %d was running on %s; asking that server for it", job.id, job.backend)
        engine.processor.recover(job, work)
    for job in await store.abandoned():
        work.create_task(engine.sending.abandon(job), name=f"abandoned job {job.id}")
    await engine.health.first_look(noted)
    await engine.others.first_look()
    _clear_half_loads(fleet, noted)


async def _noted_copies(store: JobStore, fleet: Fleet) -> Mapping[str, frozenset[str]]:
    """Restore the pins. Returns the copies of the last run as models by backend."""
    noted: defaultdict[str, set[str]] = defaultdict(set)
    for model, backend, pinned in await store.residency():
        spec = fleet.catalog.models.get(model)
        if spec is not None and backend in fleet.serving(spec):
            noted[backend].add(model)
            if pinned:
                fleet.copies.pins.add(model, backend)
    return {backend: frozenset(models) for backend, models in noted.items()}


def _clear_half_loads(fleet: Fleet, noted: Mapping[str, frozenset[str]]) -> None:
    """Unload everything that was being loaded: it may use memory although no server reports it."""
    for backend in sorted(noted):
        for model in sorted(noted[backend]):
            if fleet.health.of(backend).up and fleet.copies.get(model, backend) is None:
                fleet.copies.loading(fleet.catalog.models[model], backend, expected_s=0.0)
                fleet.copies.drain(model, backend)
