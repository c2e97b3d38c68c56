"""The queue's metrics: queues, copies, hosts, servers, and how long each host was busy."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import get_args

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from queueing.core.jobs import LANES, LATER
from queueing.core.status import (
    BackendStatus,
    HostStatus,
    ModelStatus,
    Readiness,
    Rest,
    StatusReport,
)


class BusyHosts:
    """Accumulates the time in which a host runs at least one job. `now` is a monotonic clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._running: Counter[str] = Counter()
        self._since: dict[str, float] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def begin(self, host: str) -> None:
        """Record that a job starts on a host."""
        self._running[host] += 1
        if self._running[host] == 1:
            self._since[host] = self._now()

    def end(self, host: str) -> None:
        """Record that a job ends on a host."""
        self._running[host] -= 1
        if not self._running[host]:
            self._seconds[host] += self._now() - self._since.pop(host)

    def seconds(self, host: str) -> float:
        """Return how long a host has been busy in total, up to the present."""
        since = self._since.get(host)
        return self._seconds[host] + (0.0 if since is None else self._now() - since)


OPEN = "open"
_MB = 1024 * 1024


class QueueState:
    """Collects the metrics of the queue that this process holds."""

    def __init__(self, snapshot: Callable[[], StatusReport], busy: BusyHosts) -> None:
        self._snapshot = snapshot
        self._busy = busy

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, all from the same moment."""
        seen = self._snapshot()
        yield _waiting(seen.models)
        yield _readiness(seen.models)
        yield _reasons(seen.models)
        yield _next_ends(seen.models)
        yield _running(seen.models)
        yield _memory(seen.hosts)
        yield _states(seen.hosts)
        yield _up(seen.backends)
        yield self._busy_seconds(seen.hosts)

    def _busy_seconds(self, hosts: tuple[HostStatus, ...]) -> Metric:
        family = CounterMetricFamily(
            "usher_gpu_busy_seconds",
            "Total time in which a host ran at least one job.",
            labels=["host"],
        )
        for host in hosts:
            family.add_metric([host.name], self._busy.seconds(host.name))
        return family


def _waiting(models: tuple[ModelStatus, ...]) -> Metric:
    family = GaugeMetricFamily(
        "usher_jobs_waiting", "Jobs in a model's queue.", labels=["model_name", "lane"]
    )
    for model in models:
        counts = {queue.lane: queue.waiting for queue in model.lanes}
        for lane in (*LANES, LATER):
            family.add_metric([model.name, lane], counts.get(lane, 0))
    return family


def _readiness(models: tuple[ModelStatus, ...]) -> Metric:
    family = GaugeMetricFamily(
        "usher_model_state",
        "1 for the model's current state: ready, needs-loading or absent.",
        labels=["model_name", "state"],
    )
    for model in models:
        for state in Readiness:
            family.add_metric([model.name, state.value], model.readiness is state)
    return family


def _reasons(models: tuple[ModelStatus, ...]) -> Metric:
    family = GaugeMetricFamily(
        "usher_queue_reason",
        "1 for the reason why a model's queue waits.",
        labels=["model_name", "why"],
    )
    for model in models:
        if model.waiting and model.reason is not None:
            family.add_metric([model.name, model.reason.why.value], 1)
    return family


def _next_ends(models: tuple[ModelStatus, ...]) -> Metric:
    family = GaugeMetricFamily(
        "usher_next_end_timestamp_seconds",
        "The range in which a job accepted now would probably end.",
        labels=["model_name", "bound"],
    )
    for model in models:
        if model.next_ends is not None:
            family.add_metric([model.name, "earliest"], model.next_ends.earliest)
            family.add_metric([model.name, "latest"], model.next_ends.latest)
    return family


def _states(hosts: tuple[HostStatus, ...]) -> Metric:
    family = GaugeMetricFamily(
        "usher_host_state",
        "1 for the host's current state: open, or why no job starts there.",
        labels=["host", "state"],
    )
    for host in hosts:
        now = host.resting or OPEN
        for state in (OPEN, *get_args(Rest)):
            family.add_metric([host.name, state], now == state)
    return family


def _running(models: tuple[ModelStatus, ...]) -> Metric:
    family = GaugeMetricFamily(
        "usher_jobs_running", "Jobs that are running on a server.", labels=["model_name", "backend"]
    )
    for model in models:
        for copy in model.copies:
            family.add_metric([model.name, copy.backend], copy.running)
    return family


def _memory(hosts: tuple[HostStatus, ...]) -> Metric:
    """Return the memory of each host. Nothing is free if more is resident than models may use."""
    family = GaugeMetricFamily(
        "usher_host_memory_bytes",
        "Memory: the budget of models, what they and other programs use, and what is free.",
        labels=["host", "kind"],
    )
    for host in hosts:
        kinds = {
            "budget": host.budget_mb,
            "resident": host.used_mb,
            "foreign": host.foreign_mb,
            "free": max(0, host.usable_mb - host.used_mb),
        }
        for kind, size_mb in kinds.items():
            family.add_metric([host.name, kind], size_mb * _MB)
    return family


def _up(backends: tuple[BackendStatus, ...]) -> Metric:
    family = GaugeMetricFamily(
        "usher_backend_up", "1 if a server answers, else 0.", labels=["host", "backend"]
    )
    for backend in backends:
        family.add_metric([backend.host, backend.name], backend.up)
    return family
