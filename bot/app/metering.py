"""The metrics of a process, if they are configured."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bot.app.cluster.leases import LeaseKeeper
from bot.app.supervisor import beside, keep_served
from bot.config.sections import MetricsConfig
from bot.monitoring.metrics import ClusterState, JobCounts, LoadCounts, Metrics, watch_loop
from bot.monitoring.metrics_endpoint import MetricsEndpoint, MetricsPlace
from bot.monitoring.queue_metrics import BusyHosts, QueueState
from queueing.core.ports import Clock, SystemClock
from queueing.service.job_queue import JobQueue


@dataclass(frozen=True, slots=True)
class Meters:
    """The metrics of a process and their endpoint."""

    instruments: Metrics
    endpoint: MetricsEndpoint

    def on_roles(self, keeper: LeaseKeeper, clock: Clock) -> None:
        """Measure this process's roles, its database outages, and the error of its clock."""
        self.instruments.cluster = ClusterState(
            keeper.terms,
            away_s=lambda: keeper.outage.seconds,
            off_s=lambda: clock.off_s if isinstance(clock, SystemClock) else 0.0,
        )

    @asynccontextmanager
    async def on_queue(self, queue: JobQueue, clock: Clock) -> AsyncIterator[None]:
        """Measure the queue of this process until the block ends. Raises `StoreError`."""
        busy = BusyHosts(asyncio.get_running_loop().time)
        counts = JobCounts(
            self.instruments,
            busy,
            clock,
            lambda job: queue.models.offer.catalog.gpus_of(job.model, job.backend or ""),
            queue.promises.given,
        )
        counts.found(await queue.jobs.processing())
        queue.events.subscribe(counts.on_event)
        queue.events.subscribe(LoadCounts(self.instruments).on_event)
        self.instruments.queue = QueueState(queue.status.snapshot, busy)
        try:
            yield
        finally:
            self.instruments.queue = None


@asynccontextmanager
async def metering(config: MetricsConfig | None, version: str) -> AsyncIterator[Meters | None]:
    """Provide this process's metrics and their endpoint inside the block.

    None if metrics are off.
    """
    if config is None:
        yield None
        return
    token = config.token.get_secret_value() if config.token else None
    instruments = Metrics(version)
    place = MetricsPlace(host=config.host, port=config.port, token=token)
    endpoint = MetricsEndpoint(place, instruments)
    lag = watch_loop(instruments.lag.observe)
    async with beside(keep_served(endpoint.run, "the endpoint of metrics"), lag):
        yield Meters(instruments, endpoint)
