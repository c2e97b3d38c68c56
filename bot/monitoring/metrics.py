"""The counters and histograms of one process, in their own registry.

Labels come only from the configuration and the program: models, hosts, backends, chats, outcomes,
routes. A person, a prompt or an address is never a label.
"""

import asyncio
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from bot.core.origin import origin_in
from bot.monitoring.delivery_meter import EditOutcome
from bot.monitoring.queue_metrics import BusyHosts, QueueState
from queueing.core.events import CopyLeft, Event, JobChanged, LoadEnded, Progressed
from queueing.core.jobs import Job, JobEvent, JobState
from queueing.core.ports import Clock
from queueing.core.status import Promised


@dataclass(frozen=True, eq=False, repr=False)
class ClusterState:
    """Collects the metrics of a cluster.

    `terms` has the epoch of each lease this process applies for, or 0 while it does not hold it.
    """

    terms: Mapping[str, int]
    _: KW_ONLY
    away_s: Callable[[], float]
    off_s: Callable[[], float]

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, all from the same moment."""
        held = GaugeMetricFamily(
            "usher_role_held", "1 if this process holds the lease, else 0.", labels=["role"]
        )
        epochs = GaugeMetricFamily(
            "usher_role_epoch",
            "The epoch of a lease that this process holds; it grows with each change of holder.",
            labels=["role"],
        )
        for role, epoch in self.terms.items():
            held.add_metric([role], epoch > 0)
            if epoch:
                epochs.add_metric([role], epoch)
        yield held
        yield epochs
        yield CounterMetricFamily(
            "usher_database_away_seconds",
            "Total time in which the database did not answer this process.",
            self.away_s(),
        )
        yield GaugeMetricFamily(
            "usher_clock_off_seconds",
            "How far the database server's clock is ahead of this machine's.",
            self.off_s(),
        )


# The same buckets as vLLM, so that panels for vLLM fit.
LATENCY_S = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
FIRST_TOKEN_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
DELIVERY_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
SHORT_S = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0),
)
ERROR_S = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0)
_LANE = ("lane",)
_MODEL = ("model_name",)


class Metrics:
    """The metrics that parts of the bot update; each is one metric of `/metrics`.

    A metric with labels is called with the label values and returns the metric to update.
    """

    def __init__(self, version: str) -> None:
        self.registry = CollectorRegistry()
        self.queue: QueueState | None = None  # set while this process holds the queue
        self.cluster: ClusterState | None = None  # set if several processes share the work
        build = Gauge(
            "usher_build_info",
            "The running version; always 1.",
            ("version", "python"),
            registry=self.registry,
        )
        build.labels(version, platform.python_version()).set(1)
        self.jobs = self._counter(
            "usher_jobs",
            "Ended jobs, by outcome and by platform of the request.",
            ("model_name", "outcome", "platform"),
        )
        self.attempts = self._counter(
            "usher_attempts", "Ended attempts on a server, by outcome.", ("outcome",)
        )
        self.wait = self._histogram(
            "usher_job_wait_seconds",
            "Time from a job's acceptance to its first start.",
            LATENCY_S,
            _MODEL,
        )
        self.service = self._histogram(
            "usher_job_service_seconds",
            "Time from the start of a completed job to its end, including fetching its files.",
            LATENCY_S,
            _MODEL,
        )
        self.loads = self._counter(
            "usher_model_loads",
            "Model loads, by reason.",
            ("model_name", "host", "why"),
        )
        self.load_failures = self._counter(
            "usher_model_load_failures", "Failed model loads.", ("model_name", "host")
        )
        self.load = self._histogram(
            "usher_model_load_seconds",
            "Duration of a load, including the evictions it needed.",
            LATENCY_S,
            _MODEL,
        )
        self.evictions = self._counter(
            "usher_evictions",
            "Unloaded copies of models, by reason.",
            ("model_name", "host", "why"),
        )
        self.first_token = self._histogram(
            "usher_time_to_first_token_seconds",
            "Time from a job's acceptance to the first words of its answer.",
            FIRST_TOKEN_S,
            _MODEL,
        )

        self.estimates_given = self._counter(
            "usher_estimates_given",
            "Completed jobs for which an estimate was shown.",
            _LANE,
        )
        self.estimates_kept = self._counter(
            "usher_estimates_kept",
            "Completed jobs that ended within the range first shown.",
            _LANE,
        )
        self.estimate_error = self._histogram(
            "usher_estimate_error_seconds",
            "How far outside the range first shown a job ended; 0 within it.",
            ERROR_S,
            _LANE,
        )
        self.estimate_width = self._histogram(
            "usher_estimate_width_seconds",
            "Width of the range first shown.",
            ERROR_S,
            _LANE,
        )
        self.edits = self._counter(
            "usher_edits",
            "Edits of status messages, by outcome.",
            ("platform", "outcome"),
        )
        self.delivery = self._histogram(
            "usher_delivery_seconds",
            "Time from a job's end until its chat showed the complete result.",
            DELIVERY_S,
            ("platform",),
        )
        self.requests = self._counter(
            "usher_api_requests", "Requests to the API, by route and status.", ("path", "status")
        )
        self.commit = self._plain(
            "usher_store_commit_seconds", "Duration of a write transaction.", SHORT_S
        )
        self.lag = self._plain(
            "usher_event_loop_lag_seconds", "How late the event loop woke a timer.", SHORT_S
        )

    def served(self, path: str, status: int) -> None:
        """Count a request to the API."""
        self.requests(path, status).inc()

    def _counter(self, name: str, about: str, labels: tuple[str, ...]) -> Callable[..., Counter]:
        # Cached, because the library takes longer to find a child than to increment it.
        return cache(Counter(name, about, labels, registry=self.registry).labels)

    def _histogram(
        self, name: str, about: str, buckets: tuple[float, ...], labels: tuple[str, ...]
    ) -> Callable[..., Histogram]:
        return cache(self._plain(name, about, buckets, labels).labels)

    def _plain(
        self, name: str, about: str, buckets: tuple[float, ...], labels: tuple[str, ...] = ()
    ) -> Histogram:
        return Histogram(name, about, labels, registry=self.registry, buckets=buckets)

    def now(self) -> "Shown":
        """Return the metrics of this moment. Counters are read later, when they are written."""
        states = [state for state in (self.queue, self.cluster) if state is not None]
        return Shown(self.registry, [metric for state in states for metric in state.collect()])


@dataclass(frozen=True, slots=True)
class Shown:
    """The content of one scrape. May be collected and encoded in any thread."""

    counted: CollectorRegistry
    states: Sequence[Metric]

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics without the creation times of counters.

        The text format would list those as separate metrics, one for each counter.
        """
        for metric in self.counted.collect():
            created = f"{metric.name}_created"
            metric.samples = [each for each in metric.samples if each.name != created]
            yield metric
        yield from self.states


class DeliveryCounts:
    """Implements `bot.monitoring.delivery_meter.DeliveryMeter`."""

    def __init__(self, instruments: Metrics) -> None:
        self._instruments = instruments

    def edited(self, platform: str, outcome: EditOutcome) -> None:
        """Count an edit of a status message."""
        self._instruments.edits(platform, outcome).inc()

    def delivered(self, platform: str, seconds: float) -> None:
        """Record how long after the job's end its complete result was shown."""
        self._instruments.delivery(platform).observe(seconds)


_ENDED = {
    JobEvent.COMPLETE: "completed",
    JobEvent.RETRY: "retried",
    JobEvent.RELEASE: "released",
    JobEvent.FAIL: "failed",
    JobEvent.CANCEL: "cancelled",
}


@dataclass(frozen=True, eq=False, repr=False)
class JobCounts:
    """Counts changes of jobs while this process holds the queue."""

    instruments: Metrics
    busy: BusyHosts
    clock: Clock
    hosts_of: Callable[[Job], Sequence[str]]
    promises: Mapping[int, Promised]
    _running: dict[int, Sequence[str]] = field(
        default_factory=dict, init=False
    )  # the hosts of each running job
    _silent: dict[int, Job] = field(
        default_factory=dict, init=False
    )  # running jobs without any output so far

    def found(self, jobs: Iterable[Job]) -> None:
        """Register jobs that are already running, whose start was counted by an earlier run."""
        for job in jobs:
            if job.state is JobState.PROCESSING:
                self._begin(job)

    def on_event(self, event: Event) -> None:
        """Count an event."""
        if isinstance(event, Progressed):
            heard = event.progress
            if event.job_id in self._silent and (heard.text or heard.chunks):
                self._spoken(self._silent.pop(event.job_id))
        elif isinstance(event, JobChanged) and event.event is not None:
            self._changed(event.job, event.event)

    def _changed(self, job: Job, event: JobEvent) -> None:
        if event is JobEvent.START:
            self._begin(job)
            if job.sendings == 1 and job.started_at is not None:
                waited_s = max(0.0, job.started_at - job.queued_at)
                self.instruments.wait(job.model).observe(waited_s)
            return
        self._end(job, event)
        if job.state.final:
            origin = origin_in(job.reply_to) if job.reply_to else None
            asked = "usher" if origin is None else origin.platform
            self.instruments.jobs(job.model, job.state.value, asked).inc()
        if event is JobEvent.COMPLETE and job.started_at is not None:
            took_s = max(0.0, (job.finished_at or self.clock.now()) - job.started_at)
            self.instruments.service(job.model).observe(took_s)
            self._settle(job)

    def _settle(self, job: Job) -> None:
        """Compare the end of a completed job with the first estimate its owner was shown."""
        told, ended_at = self.promises.get(job.id), job.finished_at
        if told is None or ended_at is None:
            return
        self.instruments.estimates_given(job.lane).inc()
        if told.kept(ended_at):
            self.instruments.estimates_kept(job.lane).inc()
        self.instruments.estimate_error(job.lane).observe(told.off_s(ended_at))
        self.instruments.estimate_width(job.lane).observe(told.latest - told.earliest)

    def _begin(self, job: Job) -> None:
        hosts = self._running[job.id] = self.hosts_of(job)
        self._silent[job.id] = job
        for host in hosts:
            self.busy.begin(host)

    def _end(self, job: Job, event: JobEvent) -> None:
        hosts = self._running.pop(job.id, None)
        self._silent.pop(job.id, None)
        if hosts is not None:
            for host in hosts:
                self.busy.end(host)
            self.instruments.attempts(_ENDED[event]).inc()

    def _spoken(self, job: Job) -> None:
        waited_s = max(0.0, self.clock.now() - job.queued_at)
        self.instruments.first_token(job.model).observe(waited_s)


class LoadCounts:
    """Counts loads and evictions while this process holds the queue."""

    def __init__(self, instruments: Metrics) -> None:
        self._instruments = instruments

    def on_event(self, event: Event) -> None:
        """Count an event."""
        if isinstance(event, LoadEnded):
            self._ended(event)
        elif isinstance(event, CopyLeft):
            counter = self._instruments.evictions
            counter(event.model, event.hosts[0], event.why.value).inc()

    def _ended(self, load: LoadEnded) -> None:
        instruments = self._instruments
        if load.failed:
            instruments.load_failures(load.model, load.hosts[0]).inc()
            return
        instruments.loads(load.model, load.hosts[0], load.cause.value).inc()
        instruments.load(load.model).observe(load.seconds)


EVERY_S = 0.5


async def watch_loop(observe: Callable[[float], None]) -> None:
    """Report how many seconds late each timer was, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + EVERY_S
        await asyncio.sleep(EVERY_S)
        observe(max(0.0, loop.time() - due))
