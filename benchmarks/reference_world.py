"""What the reference simulator knows: lines, copies in memory and reservations, as plain records.

Nothing here comes from `queueing`: the reference must not share a mistake with what it judges.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from itertools import combinations

from benchmarks.trace import Trace, TraceHost, TraceJob, TraceModel
from benchmarks.trace_file import BadTrace

TAU_S = 900.0
LANE_WEIGHTS = {"vip": 4, "normal": 2, "relaxed": 1}


@dataclass(eq=False)
class Copy:
    """A model in the memory of a host, loading until `ready_at`."""

    model: str
    backend: str
    host: str
    ready_at: float
    loading: bool
    running: int = 0


@dataclass(eq=False)
class Waiting:
    """One job in its line."""

    index: int
    asked: TraceJob


@dataclass(eq=False)
class Line:
    """The waiting jobs of one model and what is known about it."""

    spec: TraceModel
    lanes: dict[str, deque[Waiting]] = field(default_factory=dict)
    credit: dict[str, float] = field(default_factory=dict)
    left_at: float = -math.inf
    rate: float = 0.0
    rate_at: float = 0.0
    services: int = 1
    service_sum_s: float = 0.0

    def oldest(self) -> Waiting | None:
        """Return the oldest waiting job, whatever its lane."""
        heads = [lane[0] for lane in self.lanes.values() if lane]
        return min(heads, key=lambda job: (job.asked.at, job.index), default=None)

    def __len__(self) -> int:
        """Return how many jobs wait."""
        return sum(map(len, self.lanes.values()))

    def pick(self, arrived_by: float) -> Waiting | None:
        """Take the next job that arrived by a moment: smooth weighted round robin over lanes."""
        open_lanes = [
            n for n, lane in self.lanes.items() if lane and lane[0].asked.at <= arrived_by
        ]
        if not open_lanes:
            return None
        for name in open_lanes:
            self.credit[name] = self.credit.get(name, 0.0) + LANE_WEIGHTS.get(name, 1)
        chosen = max(open_lanes, key=lambda name: self.credit[name])
        self.credit[chosen] -= sum(LANE_WEIGHTS.get(name, 1) for name in open_lanes)
        return self.lanes[chosen].popleft()

    def arrived(self, job: Waiting) -> None:
        """Put a job at the end of its lane and count the arrival."""
        self.lanes.setdefault(job.asked.lane, deque()).append(job)
        self.rate = self.rate_per_s(job.asked.at) + 1 / TAU_S
        self.rate_at = job.asked.at

    def rate_per_s(self, now: float) -> float:
        """Return the exponentially weighted arrival rate."""
        return self.rate * math.exp(-(now - self.rate_at) / TAU_S)

    def served(self, seconds: float) -> None:
        """Learn from a job that ended."""
        if self.services == 1 and self.service_sum_s == 0.0:
            self.service_sum_s = self.spec.service_s
        self.services += 1
        self.service_sum_s += seconds

    @property
    def service_s(self) -> float:
        """The mean service time so far, the configured one counting once."""
        return self.service_sum_s / self.services if self.services > 1 else self.spec.service_s


@dataclass(eq=False)
class Reservation:
    """A host kept for an overdue model; which victims may start what, until it can be loaded."""

    model: str
    backend: str
    victims: list[Copy]
    arrived_by: dict[Copy, float]
    closed_at: dict[Copy, float]

    def admits_until(self, copy: Copy, now: float) -> float:
        """Return by when a job must have arrived to be started on this copy."""
        if copy not in self.arrived_by:
            return math.inf
        return self.arrived_by[copy] if now <= self.closed_at[copy] else -math.inf


class Cards:
    """All hosts of a trace: memory, loaders, reservations."""

    def __init__(self, trace: Trace) -> None:
        if any(len(hosts) > 1 for hosts in trace.hosts_of().values()):
            raise BadTrace("the reference knows servers with one card only")
        self.hosts: dict[str, TraceHost] = {host.name: host for host in trace.hosts}
        self.budget_mb = {host.name: host.vram_mb * host.margin for host in trace.hosts}
        self.host_of = {b.name: host.name for host in trace.hosts for b in host.backends}
        self.serial = {b.name for host in trace.hosts for b in host.backends if b.serial}
        self.lines = {model.name: Line(model) for model in trace.models}
        self.copies: list[Copy] = []
        self.reserved: dict[str, Reservation] = {}
        for resident in trace.resident:
            where = self.host_of[resident.backend]
            self.copies.append(Copy(resident.model, resident.backend, where, 0.0, loading=False))
        self.peak_mb = {name: self.used_mb(name) for name in self.hosts}

    def on(self, host: str) -> list[Copy]:
        """Return the copies of a host."""
        return [copy for copy in self.copies if copy.host == host]

    def of(self, model: str) -> list[Copy]:
        """Return the copies of a model."""
        return [copy for copy in self.copies if copy.model == model]

    def used_mb(self, host: str) -> int:
        """Return the memory taken on a host, loading copies included."""
        return sum(self.lines[copy.model].spec.vram_mb for copy in self.on(host))

    def loader_free(self, host: str) -> bool:
        """Whether no load runs on a host."""
        return not any(copy.loading for copy in self.on(host))

    def backend_idle(self, backend: str) -> bool:
        """Whether a serial backend does nothing; the others are always ready to begin."""
        here = [copy for copy in self.copies if copy.backend == backend]
        return backend not in self.serial or not any(c.loading or c.running for c in here)

    def has_slot(self, copy: Copy) -> bool:
        """Whether a copy could start one more job."""
        parallel = self.lines[copy.model].spec.parallel
        return not copy.loading and copy.running < parallel and self.backend_idle(copy.backend)

    def running_on(self, host: str) -> int:
        """Return how many jobs run on a host."""
        return sum(copy.running for copy in self.on(host))

    def cost(self, copy: Copy, now: float) -> float:
        """Return what an eviction costs: rate times load time per size."""
        line = self.lines[copy.model]
        others = len(self.of(copy.model)) > 1
        price = line.rate_per_s(now) * line.spec.load_s / line.spec.vram_mb
        return price * (0.25 if others else 1.0)

    def cheapest(
        self, host: str, need_mb: int, candidates: list[Copy], now: float
    ) -> list[Copy] | None:
        """Return the cheapest set of copies whose going makes room, None where none does."""
        free_mb = self.budget_mb[host] - self.used_mb(host)
        best: tuple[float, int, list[Copy]] | None = None
        for count in range(len(candidates) + 1):
            for chosen in combinations(candidates, count):
                freed_mb = sum(self.lines[copy.model].spec.vram_mb for copy in chosen)
                price = sum(self.cost(copy, now) for copy in chosen)
                if free_mb + freed_mb >= need_mb and (best is None or (price, count) < best[:2]):
                    best = (price, count, list(chosen))
        return None if best is None else best[2]
