"""Forecasts when each waiting job will be done, by running the planner forward.

Pure and bounded. It looks only as far ahead as asked, at most three thousand starts or five hundred
decisions (fewer among many models). Beyond that, it extrapolates queues from their shares of the
GPUs.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

from queueing.core.jobs import Job
from queueing.core.snapshot import Snapshot
from queueing.forecast.arrivals import Newcomers
from queueing.forecast.simulated_queue import SimulatedQueue, Started
from queueing.forecast.simulation import Service, Simulation
from queueing.planning.states import typical_s

Key = tuple[str, str]  # model and lane

_LEAST = 1e-9


@dataclass(slots=True)
class Share:
    """The remaining work of one queue, and its share of all the work done at the same time.

    `begun` counts its starts so far, `left` those to come. It uses `slots` on average, and can use
    `most_slots`.
    """

    service_s: float
    begun: float
    left: float
    slots: float
    most_slots: float
    stretches: list[tuple[float, float, float]] = field(default_factory=list)  # start, begun, pace

    def start_at(self, position: int) -> float:
        """Return when the job at that position starts; inf if it is not expected to."""
        if not self.stretches:
            return inf
        index = bisect_left(self.stretches, float(position), key=_begun)
        at, begun, per_s = self.stretches[max(0, index - 1)]
        return at + (position - begun) / per_s


def _begun(stretch: tuple[float, float, float]) -> float:
    return stretch[1]


def shares(
    queues: Mapping[Key, SimulatedQueue],
    *,
    since: float,
    now: float,
    service_s: Callable[[SimulatedQueue], float],
    most_slots: Callable[[SimulatedQueue], int],
) -> dict[Key, Share]:
    """Extrapolate the queues from `now` until they are empty, by their shares since `since`."""
    seen_s = max(now - since, _LEAST)
    made = {}
    for key, queue in queues.items():
        begun, usual_s = len(queue.starts), max(service_s(queue), _LEAST)
        left = max(0, queue.left)
        made[key] = Share(usual_s, begun, left, begun * usual_s / seen_s, most_slots(queue))
    waiting = [share for share in made.values() if share.left]
    seen = [share.slots for share in waiting if share.slots > 0]
    for share in waiting:
        if share.slots <= 0:  # it had no turn in the period: assume the average
            share.slots = sum(seen) / len(seen) if seen else 1.0
    _drain(waiting, sum(share.slots for share in made.values()), now)
    return made


def _drain(waiting: list[Share], slots: float, now: float) -> None:
    """Record for each share the pace at which it continues, until all are empty."""
    while waiting:
        paces = _paces(waiting, slots)
        for share, pace in zip(waiting, paces, strict=True):
            share.stretches.append((now, share.begun, pace))
        step_s = min(share.left / pace for share, pace in zip(waiting, paces, strict=True))
        for share, pace in zip(waiting, paces, strict=True):
            share.begun += pace * step_s
            share.left -= pace * step_s
        now += step_s
        waiting = [share for share in waiting if share.left > _LEAST * share.begun]


def _paces(waiting: list[Share], slots: float) -> list[float]:
    """Return the starts per second of each share: its part of the slots, up to its maximum."""
    wanted = sum(share.slots for share in waiting)
    return [
        max(min(share.slots * slots / wanted, share.most_slots), _LEAST) / share.service_s
        for share in waiting
    ]


MOST_STARTS = 3000


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """When a job is expected to start and to end (UNIX seconds), and on which backend."""

    start_at: float
    done_at: float
    backend: str


class Forecast:
    """The expected course from one snapshot.

    Questions may come in any order. Each costs only what earlier ones have not computed.
    """

    def __init__(
        self, snapshot: Snapshot, service: Service, *, most_starts: int = MOST_STARTS
    ) -> None:
        self._origin = snapshot
        self._service = service
        self._simulation = Simulation(snapshot, service, most_starts=most_starts)

    @property
    def far(self) -> bool:
        """Whether it has looked so far ahead that a new forecast would be expensive."""
        return self._simulation.far

    def knows(self, job: Job) -> bool:
        """Return whether the job's queue was in the snapshot."""
        return (job.model, job.lane) in self._simulation.queues

    def of(
        self,
        job: Job,
        position: int,
        now: float | None = None,
        newcomers: Newcomers | None = None,
    ) -> Expected | None:
        """Return when a waiting job will be done; None if that cannot be estimated.

        `position` counts from 1 in the job's model and lane. It is the position at `now`, when jobs
        expected to have started are not counted, or at the snapshot's time without `now`. Positions
        beyond the known jobs follow at the queue's pace. In a fair order, `newcomers` will go first
        as well.
        """
        queue = self._simulation.queues.get((job.model, job.lane))
        started = None if queue is None else self._start_of(queue, position, now)
        if queue is None or started is None:
            return None
        at = started.at
        if newcomers is not None:
            wait_s = at - (self._origin.now if now is None else now)
            at += newcomers.delay_s(wait_s, self._each_s(queue.model, started.backend))
        usual = self._service(job, started.backend)
        return Expected(start_at=at, done_at=at + usual.mean_s, backend=started.backend)

    def _each_s(self, model: str, backend: str) -> float:
        """Return by how many seconds each job that goes first delays a model's next start."""
        usual_s = typical_s(self._origin.models[model], backend)
        return usual_s / max(1, self._simulation.slots(model))

    def stands(self, job: Job) -> bool:
        """Return whether the snapshot was made while the next job of this queue was starting."""
        queue = self._simulation.queues.get((job.model, job.lane))
        return queue is not None and self._is_starting(queue)

    @staticmethod
    def _is_starting(queue: SimulatedQueue) -> bool:
        """Whether a queue's head is being started, so that positions in it are unknown.

        Simulating such a queue would only advance the other queues to the limit.
        """
        view = queue.view
        return bool(view.count) and not view.heads and view.next_start_at is None

    def _start_of(self, queue: SimulatedQueue, position: int, now: float | None) -> Started | None:
        """Return the start at a position counted from `now`; None if it cannot be estimated."""
        if self._is_starting(queue):
            return None
        unexpected = 0
        if now is not None:
            position += queue.begun(now)
            unexpected = max(0, position - max(1, queue.view.count))
            position -= unexpected
        while len(queue.starts) < position and not self._simulation.over:
            self._simulation.step()
        started = self._start_at(queue, position)
        if started is None or not unexpected or not queue.starts:
            return started
        # Jobs expected before it may not have started yet, and it cannot start in the past.
        since = max(started.at, self._origin.now if now is None else now)
        return Started(since + unexpected * self._pace_s(queue), started.backend)

    def _start_at(self, queue: SimulatedQueue, position: int) -> Started | None:
        known = queue.starts
        if position <= len(known):
            return known[position - 1]
        if not self._simulation.cut_short:
            return None  # no known event will ever start it
        backend = known[-1].backend if known else self._origin.models[queue.model].backends[0]
        share = self._tail.get((queue.model, queue.view.lane))
        at = inf if share is None else share.start_at(position)
        return None if at == inf else Started(at, backend)

    @cached_property
    def _tail(self) -> Mapping[Key, Share]:
        """How all queues that are not paused continue after the simulated period."""
        return shares(
            {
                key: queue
                for key, queue in self._simulation.queues.items()
                if not self._origin.models[queue.model].paused
            },
            since=self._origin.now,
            now=self._simulation.now,
            service_s=self._usual_s,
            most_slots=self._most_slots,
        )

    def _usual_s(self, queue: SimulatedQueue) -> float:
        backend = queue.starts[-1].backend if queue.starts else ""
        return typical_s(self._origin.models[queue.model], backend)

    def _most_slots(self, queue: SimulatedQueue) -> int:
        model = self._origin.models[queue.model]
        return model.parallel * len(model.backends)

    def _pace_s(self, queue: SimulatedQueue) -> float:
        """Return the seconds between two starts of a queue, as far as simulated."""
        starts = queue.starts
        if len(starts) > 4:
            half = len(starts) // 2
            return (starts[-1].at - starts[half].at) / max(1, len(starts) - 1 - half)
        usual_s = typical_s(self._origin.models[queue.model], starts[-1].backend)
        return usual_s / max(1, self._simulation.slots(queue.model))
