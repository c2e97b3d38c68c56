"""The metrics of a process, if they are configured, and the endpoint `GET /metrics` for Prometheus."""

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web
from prometheus_client.exposition import choose_encoder

from bot.app.cluster.leases import LeaseKeeper
from bot.app.supervisor import beside, keep_served
from bot.config.sections import MetricsConfig
from bot.http.addresses import why_not_local
from bot.http.connection_limits import ConnectionLimits
from bot.http.listener import Listener, open_at
from bot.monitoring.metrics import ClusterState, JobCounts, LoadCounts, Metrics, watch_loop
from bot.monitoring.queue_metrics import BusyHosts, QueueState
from queueing.core.ports import Clock, SystemClock
from queueing.service.job_queue import JobQueue

log = logging.getLogger(__name__)

PATH = "/metrics"
UNKNOWN_READER = "The metrics need their token, as “Authorization: Bearer …”."
THIS_MACHINE_ONLY = "Without a token the metrics serve this machine only: set metrics.token."
_CONNECTIONS = ConnectionLimits(overall=32, strangers=32, person=32)


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricsPlace:
    """Where metrics are served. Without a token, only this machine may read them."""

    host: str = "127.0.0.1"
    port: int = 9464
    token: str | None = None


class MetricsEndpoint:
    """Serves the metrics. While it listens, `connected` is set and `port` is the actual port."""

    def __init__(self, place: MetricsPlace, instruments: Metrics) -> None:
        self.connected = asyncio.Event()
        self.port = place.port
        self._place = place
        self._instruments = instruments

    async def run(self) -> None:
        """Serve until cancelled. Raises `CannotListen`."""
        app = web.Application()
        app.router.add_get(PATH, self._get)  # also handles HEAD
        listener = Listener(app, limits=_CONNECTIONS)
        try:
            self.port = await open_at(listener, self._place.host, self._place.port)
            log.info("metrics are at http://%s:%d%s", self._place.host, self.port, PATH)
            self.connected.set()
            await asyncio.Event().wait()
        finally:
            self.connected.clear()
            await listener.close()

    async def _get(self, request: web.Request) -> web.Response:
        if why := self._why_not(request):
            named = {"WWW-Authenticate": "Bearer"}
            return web.Response(status=HTTPStatus.UNAUTHORIZED, text=f"{why}\n", headers=named)
        shown = self._instruments.now()
        encode, kind = choose_encoder(request.headers.get("Accept", ""))
        # In a thread, because encoding many models takes tens of milliseconds.
        body = await asyncio.to_thread(encode, shown)
        return web.Response(body=body, headers={"Content-Type": kind})

    def _why_not(self, request: web.Request) -> str | None:
        """Return why a request is refused: no valid token, or without one, not from this machine."""
        token = self._place.token
        if token is None:
            why = why_not_local(request.headers)
            return why and f"{why} {THIS_MACHINE_ONLY}"
        given = request.headers.get("Authorization", "").encode()
        right = hmac.compare_digest(given, f"Bearer {token}".encode())
        return None if right else UNKNOWN_READER


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
