"""Forecast: when each waiting job will be done, found by running the planner forward.

Pure and bounded: it looks only as far ahead as it is asked, at most some thousand starts or five
hundred decisions (fewer among many models), and extrapolates longer lines from how they share the
cards.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import hypot, inf, sqrt

from queueing.core.jobs import Job
from queueing.core.world import World
from queueing.planning.estimates import Usual
from queueing.planning.extrapolation import Key, Share, shares
from queueing.planning.likeliest import FEW, shift
from queueing.planning.newcomers import Newcomers
from queueing.planning.overtaking import Overtaking, overtaking, spread
from queueing.planning.precedence import Precedence, precedence
from queueing.planning.simulated_fleet import typical_s
from queueing.planning.simulated_queue import SimulatedQueue, Started
from queueing.planning.simulation import Service, Simulation
from queueing.planning.turn_spread import delay_s, turn_spread_s

MOST_STARTS = 3000
MORE_SHARE = 0.1  # of a line: how many more may have joined it than such a forecast expected
ONE_MORE = 1  # may always have joined, if it looks far ahead
AGE_SHARE = 0.05  # of the remaining wait: how old a forecast of its end may be
JOINED_SHARE = 0.03  # the same of one that let in a job which it did not expect
NEWS_SHARE = 0.01  # the same after an event that it did not expect


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """When a job is expected to start and to end, and how far each may be off."""

    start_at: float
    start_spread_s: float
    done_at: float
    spread_s: float


class Forecast:
    """The expected course of one world.

    Questions may come in any order; each costs only what no earlier question has found out.
    """

    def __init__(self, world: World, service: Service, *, most_starts: int = MOST_STARTS) -> None:
        self._origin = world
        self._service = service
        self._simulation = Simulation(world, service, most_starts=most_starts)
        self._turn_spreads: dict[tuple[str, str], float] = {}

    @property
    def far(self) -> bool:
        """Whether it has looked so far ahead that another such look would cost much."""
        return self._simulation.far

    def knows(self, job: Job) -> bool:
        """Return whether it has seen the job's line."""
        return (job.model, job.lane) in self._simulation.lines

    def still_tells(self, job: Job, position: int, now: float, *, news: bool) -> bool:
        """Return whether it is recent enough for a job at that position now.

        Distant moments move little within a twentieth of the time to them. One more job than
        expected joins its line, if that changes nothing before it. After `news`, or if more have
        come than could join, only a forecast that looks far ahead remains valid, for a hundredth.
        """
        line = self._simulation.lines.get((job.model, job.lane))
        if line is None:
            return False
        share = NEWS_SHARE if news else AGE_SHARE
        if not self._expects(line, position, now):
            joined = not news and self._lets_in(job, line, position, now)
            news = not joined
            share = JOINED_SHARE if joined else NEWS_SHARE
        if news and not self.far:
            return False
        started = self._start_of(line, position, now)
        return started is not None and now - self._origin.now <= share * (started.at - now)

    def _expects(self, line: SimulatedQueue, position: int, now: float) -> bool:
        """Return whether about so many were expected to have come to a line by now."""
        count = line.count(now)
        most = max(ONE_MORE if self.far else 0, MORE_SHARE * count)
        return line.begun(now) + position - count <= most

    def _lets_in(self, job: Job, line: SimulatedQueue, position: int, now: float) -> bool:
        """Let in a job that was not expected; return whether that was possible.

        One that begins too soon for a forecast of that age, as it seems, is not worth the steps.
        """
        begins_at = self._simulation.now
        if line.starts:
            begins_at = line.starts[-1].at + self._pace_s(line)
        if now - self._origin.now > JOINED_SHARE * (begins_at - now):
            return False
        place = line.begun(now) + position
        return self._simulation.join(line, job, place - 1, place - line.count(now))

    def of(
        self,
        job: Job,
        position: int,
        now: float | None = None,
        newcomers: Newcomers | None = None,
    ) -> Expected | None:
        """Return when a waiting job will be done; None if nothing can honestly be said.

        `position` counts from 1 in the job's model and lane, at the forecast's own moment or at
        `now`, when those expected to have started are no longer ahead. Places behind those expected
        to have arrived by `now` follow at the line's pace: perhaps no further job is expected. The
        spread added by independent jobs ahead grows with the root of their number, be they there
        already or yet to come and go first. Under a fair order `newcomers` will go first, too.
        """
        line = self._simulation.lines.get((job.model, job.lane))
        started = None if line is None else self._start_of(line, position, now)
        if line is None or started is None:
            return None
        begun = 0 if now is None else line.begun(now)
        come = self._overtaking(line, position + begun, started)
        each_s = delay_s(self._simulation, self._origin, line.model, started)
        usual = self._service(job, started.backend)
        at = self._likeliest(started.at, come, each_s, usual)
        ahead = self._ahead(at, usual)
        unknown_s = hypot(
            spread(come.number) * each_s, self._turn_spread_s(line.model, started.backend)
        )
        if newcomers is not None:
            wait_s = at - (self._origin.now if now is None else now)
            at += newcomers.delay_s(wait_s, each_s)
            fair_s = min(newcomers.most_s, spread(newcomers.number(wait_s)) * each_s)
            unknown_s = hypot(unknown_s, fair_s)
        return Expected(
            start_at=at,
            start_spread_s=hypot(usual.spread_s * sqrt(ahead), unknown_s),
            done_at=at + usual.mean_s,
            spread_s=hypot(usual.spread_s * sqrt(1 + ahead), unknown_s),
        )

    def _likeliest(self, at: float, come: Overtaking, each_s: float, usual: Usual) -> float:
        """Return when a job most likely starts, which starts at that moment in what was run.

        Of many who come first the mean is likely enough; one or two are there, or are not.
        """
        mean_at = at + come.parts * each_s
        if max(come.number, come.rushes) > FEW:
            return mean_at
        alone_at = max(self._origin.now, mean_at - come.number * each_s)
        spread_s = usual.spread_s * sqrt(1 + self._ahead(alone_at, usual))
        wait_s = alone_at + usual.mean_s - self._origin.now
        return alone_at + shift(wait_s, come.rushes, each_s, spread_s)

    def _ahead(self, at: float, usual: Usual) -> float:
        """Return how many jobs of that time fit in before a moment."""
        return max(0.0, at - self._origin.now) / max(usual.mean_s, 0.001)

    def precedence(self, model: str, now: float) -> Precedence | None:
        """Return what comes before a model's next start; None if that cannot be said."""
        if any(self._stands(line) for line in self._simulation.of_model(model)):
            return None
        return precedence(self._simulation, self._origin, model, now)

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
            unexpected = max(0, position - max(1, line.count(now)))
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

    def _overtaking(self, line: SimulatedQueue, position: int, started: Started) -> Overtaking:
        """Return the arrivals in other lanes that are expected before a start."""
        lines = self._simulation.of_model(line.model)
        if len(lines) < 2:
            return Overtaking(0.0, 0.0, 0.0)
        return overtaking(
            line,
            position,
            started.at,
            lines=lines,
            spent=self._origin.lane_spent,
            weights=self._origin.rules.lane_weights,
        )

    def _turn_spread_s(self, model: str, backend: str) -> float:
        """Return how far off a model's turn may be by those yet to come to models before it there."""
        known = self._turn_spreads.get((model, backend))
        if known is None:
            known = turn_spread_s(self._simulation, self._origin, model, backend)
            self._turn_spreads[model, backend] = known
        return known

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
