"""Forecast: when each waiting job will be done, found by running the planner forward.

Pure and bounded: it looks only as far ahead as it is asked, at most some thousand starts or five
hundred decisions (fewer among many models), and extrapolates longer lines from how they share the
cards.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf

from queueing.core.jobs import Job
from queueing.core.snapshot import World
from queueing.forecast.extrapolation import Key, Share, shares
from queueing.forecast.newcomers import Newcomers
from queueing.forecast.simulated_queue import SimulatedQueue, Started
from queueing.forecast.simulation import Service, Simulation
from queueing.planning.states import typical_s

MOST_STARTS = 3000


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """When a job is expected to start and to end (UNIX seconds), and on which backend."""

    start_at: float
    done_at: float
    backend: str


class Forecast:
    """The expected course of one world.

    Questions may come in any order; each costs only what no earlier question has found out.
    """

    def __init__(self, world: World, service: Service, *, most_starts: int = MOST_STARTS) -> None:
        self._origin = world
        self._service = service
        self._simulation = Simulation(world, service, most_starts=most_starts)

    @property
    def far(self) -> bool:
        """Whether it has looked so far ahead that another such look would cost much."""
        return self._simulation.far

    def knows(self, job: Job) -> bool:
        """Return whether it has seen the job's line."""
        return (job.model, job.lane) in self._simulation.lines

    def of(
        self,
        job: Job,
        position: int,
        now: float | None = None,
        newcomers: Newcomers | None = None,
    ) -> Expected | None:
        """Return when a waiting job will be done; None if nothing can honestly be said.

        `position` counts from 1 in the job's model and lane, at the forecast's own moment or at
        `now`, when those expected to have started are no longer ahead. Places behind those it
        knows follow at the line's pace.
        Under a fair order `newcomers` will go first, too.
        """
        line = self._simulation.lines.get((job.model, job.lane))
        started = None if line is None else self._start_of(line, position, now)
        if line is None or started is None:
            return None
        at = started.at
        if newcomers is not None:
            wait_s = at - (self._origin.now if now is None else now)
            at += newcomers.delay_s(wait_s, self._each_s(line.model, started.backend))
        usual = self._service(job, started.backend)
        return Expected(start_at=at, done_at=at + usual.mean_s, backend=started.backend)

    def _each_s(self, model: str, backend: str) -> float:
        """Return by how much one that goes first delays a start of a model."""
        usual_s = typical_s(self._origin.models[model], backend)
        return usual_s / max(1, self._simulation.slots(model))

    def stands(self, job: Job) -> bool:
        """Return whether it was made at the moment in which a job of this one's line started."""
        line = self._simulation.lines.get((job.model, job.lane))
        return line is not None and self._stands(line)

    @staticmethod
    def _stands(line: SimulatedQueue) -> bool:
        """Whether a line's head is being started at this moment, so that its place is unknown.

        Looking ahead all the same would only follow the other lines as far as allowed.
        """
        view = line.view
        return bool(view.count) and not view.heads and view.next_start_at is None

    def _start_of(self, line: SimulatedQueue, position: int, now: float | None) -> Started | None:
        """Return the start at a position, counted from `now`; None if nothing can be said."""
        if self._stands(line):
            return None
        unexpected = 0
        if now is not None:
            position += line.begun(now)
            unexpected = max(0, position - max(1, line.view.count))
            position -= unexpected
        while len(line.starts) < position and not self._simulation.over:
            self._simulation.step()
        started = self._start_at(line, position)
        if started is None or not unexpected or not line.starts:
            return started
        # Jobs expected before it may not have begun yet, and it cannot begin sooner than now.
        since = max(started.at, self._origin.now if now is None else now)
        return Started(since + unexpected * self._pace_s(line), started.backend)

    def _start_at(self, line: SimulatedQueue, position: int) -> Started | None:
        known = line.starts
        if position <= len(known):
            return known[position - 1]
        if not self._simulation.cut_short:
            return None  # no known event will ever start it
        backend = known[-1].backend if known else self._origin.models[line.model].backends[0]
        share = self._tail.get((line.model, line.view.lane))
        at = inf if share is None else share.start_at(position)
        return None if at == inf else Started(at, backend)

    @cached_property
    def _tail(self) -> Mapping[Key, Share]:
        """How all lines that are not paused continue from where it was cut short."""
        return shares(
            {
                key: line
                for key, line in self._simulation.lines.items()
                if not self._origin.models[line.model].paused
            },
            since=self._origin.now,
            now=self._simulation.now,
            service_s=self._usual_s,
            most_slots=self._most_slots,
        )

    def _usual_s(self, line: SimulatedQueue) -> float:
        backend = line.starts[-1].backend if line.starts else ""
        return typical_s(self._origin.models[line.model], backend)

    def _most_slots(self, line: SimulatedQueue) -> int:
        model = self._origin.models[line.model]
        return model.parallel * len(model.backends)

    def _pace_s(self, line: SimulatedQueue) -> float:
        """Return the seconds from one start of a line to the next, as far as it was seen."""
        starts = line.starts
        if len(starts) > 4:
            half = len(starts) // 2
            return (starts[-1].at - starts[half].at) / max(1, len(starts) - 1 - half)
        usual_s = typical_s(self._origin.models[line.model], starts[-1].backend)
        return usual_s / max(1, self._simulation.slots(line.model))
