"""What a process measures, if its configuration has a place for metrics."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bot.cluster.posts import PostKeeper
from bot.config.sections import MetricsConfig
from bot.metrics.busy_hosts import BusyHosts
from bot.metrics.cluster_state import ClusterState
from bot.metrics.endpoint import MetricsEndpoint, MetricsPlace
from bot.metrics.instruments import Instruments
from bot.metrics.job_counts import JobCounts
from bot.metrics.load_counts import LoadCounts
from bot.metrics.loop_lag import watch_loop
from bot.metrics.queue_state import QueueState
from bot.runtime.background import beside, keep_served
from queueing.core.clock import SystemClock
from queueing.core.ports import Clock
from queueing.service.job_queue import JobQueue


@dataclass(frozen=True, slots=True)
class Meters:
    """The instruments of a process and the endpoint that shows them."""

    instruments: Instruments
    endpoint: MetricsEndpoint

    def on_posts(self, keeper: PostKeeper, clock: Clock) -> None:
        """Measure the posts of this process, and what it knows of the database."""
        self.instruments.cluster = ClusterState(
            keeper.terms,
            away_s=lambda: keeper.outage.seconds,
            off_s=lambda: clock.off_s if isinstance(clock, SystemClock) else 0.0,
        )

    @asynccontextmanager
    async def on_queue(self, queue: JobQueue, clock: Clock) -> AsyncIterator[None]:
        """Measure the queue that this process holds, until the block ends. Raises `StoreError`."""
        busy = BusyHosts(asyncio.get_running_loop().time)
        counts = JobCounts(
            self.instruments,
            busy,
            clock,
            lambda job: queue.models.offer.catalog.cards_of(job.model, job.backend or ""),
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
    """Provide the meters of this process, shown until the block ends; None if metrics are off."""
    if config is None:
        yield None
        return
    token = config.token.get_secret_value() if config.token else None
    instruments = Instruments(version)
    place = MetricsPlace(host=config.host, port=config.port, token=token)
    endpoint = MetricsEndpoint(place, instruments)
    lag = watch_loop(instruments.lag.observe)
    async with beside(keep_served(endpoint.run, "the endpoint of metrics"), lag):
        yield Meters(instruments, endpoint)
