"""The queue in this process. The bot uses its parts through `bot.core.service`."""

from collections.abc import Callable, Mapping

from queueing.core.catalog import Catalog
from queueing.core.concurrency import TaskGroup
from queueing.core.events import Stopping
from queueing.core.ports import Backend, Clock, GpuWatch, HostControl, MemoryProbe
from queueing.core.snapshot import LONG_QUEUE, Rules
from queueing.engine.event_bus import EventBus
from queueing.service.assembly import Given, assemble
from queueing.service.reconfiguration import Reconfiguration
from queueing.service.recovery import recover
from queueing.store.jobs.job_store import JobStore


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
        held: Callable[[], bool] = lambda: True,
    ) -> None:
        """Assemble the queue. The log warns of queues that reach `long_queue()` jobs.

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
