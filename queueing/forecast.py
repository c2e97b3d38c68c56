"""Forecast: when will each waiting job be done, found by running the planner forward.

Pure and bounded: it looks only as far ahead as it is asked, a few hundred starts at most, and
continues long lines at the pace it has seen. It assumes no further arrivals and no failures.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from math import inf, sqrt

from queueing.estimates import Usual
from queueing.jobs import Job, JobState
from queueing.planning import plan_moves
from queueing.planning.board import DEFAULT_LOAD_S, DEFAULT_SERVICE_S
from queueing.requests import TextToImage
from queueing.world import (
    Copy,
    Evict,
    Load,
    ModelView,
    Plan,
    Reservation,
    Residency,
    Waiting,
    World,
)

MOST_STARTS = 500
MOST_PLANS = 500  # timers that change nothing must not keep the forecast busy
OVERDUE_SHARE = 0.15  # of the usual time: the rest of a job or load that should be done by now
LEAVING_S = 2.0  # an unload under way
HEADS = 3  # heads shown to the planner; more only start in the same moment

Service = Callable[[Job, str], Usual]
"""How long this job takes on that backend."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """When a job is expected to end, and how far that may be off."""

    start_at: float
    done_at: float
    spread_s: float


@dataclass(frozen=True, slots=True)
class _Started:
    """A start that will come: when, and on which backend."""

    at: float
    backend: str


@dataclass(slots=True)
class _Line:
    """The future of one line: its jobs before they start, and the starts that are known."""

    model: str
    view: Waiting
    now: float  # of the forecast's beginning
    rate_per_s: float  # of further arrivals
    starts: list[_Started] = field(default_factory=list)

    def count(self, moment: float) -> int:
        """Return how many will have come by then, started ones included."""
        return self.view.count + int(self.rate_per_s * (moment - self.now) + 0.5 + 1e-9)

    def next_arrival_at(self) -> float:
        """Return when the first job behind those that have started comes; it may be past."""
        return self._arrives_at(len(self.starts))

    def _arrives_at(self, index: int) -> float:
        if self.rate_per_s <= 0:
            return inf
        return self.now + (index - self.view.count + 0.5) / self.rate_per_s

    def job(self, index: int) -> Job:
        """Return the job at that place; beyond the known heads one that stands in for it."""
        heads = self.view.heads
        if index < len(heads):
            return heads[index]
        if index >= self.view.count:
            return _stand_in(self.model, self.view.lane, self._arrives_at(index))
        first_at = heads[-1].queued_at if heads else self.view.oldest_at
        share = (index + 1 - len(heads)) / max(1, self.view.count - len(heads))
        return _stand_in(self.model, self.view.lane, first_at + share * (self.now - first_at))


class Forecast:
    """The expected course of one world; asks the planner for every step and remembers the answers.

    Questions may come in any order; each costs only what no earlier question has found out.
    `cut_short` tells that it has looked as far ahead as it may and estimates the rest by pace.
    """

    def __init__(self, world: World, service: Service, *, most_starts: int = MOST_STARTS) -> None:
        self._origin = world
        self._service = service
        self._starts_left = most_starts
        self._plans_left = max(MOST_PLANS, most_starts)
        self._world = world
        self._lines = {
            (line.model, line.view.lane): line
            for model in world.models.values()
            for line in _lines(model, world.now)
        }
        self._lines_of = {
            name: [line for line in self._lines.values() if line.model == name]
            for name in world.models
        }
        self._models = dict(world.models)
        self._backends = dict(world.backends)
        self._copies = {(copy.model, copy.backend): copy for copy in world.copies}
        self._pausing = {
            name
            for (name, _), line in self._lines.items()
            if line.view.count and (not line.view.heads or world.models[name].paused)
        }
        self._moved: set[str] = set()
        self._events = self._first_events()
        self._over = False
        self.cut_short = False

    def of(self, job: Job, position: int) -> Expected | None:
        """Return when a waiting job will be done; None where nothing can honestly be said.

        `position` counts from 1 in the job's model and lane. A place behind the line's end is
        continued at the line's pace, so a job not yet in the world can be asked for.
        """
        line = self._lines.get((job.model, job.lane))
        if line is None:
            return None
        while len(line.starts) < position and not self._over:
            self._step()
        started = self._start_of(line, position)
        if started is None:
            return None
        usual = self._service(job, started.backend)
        return Expected(
            start_at=started.at,
            done_at=started.at + usual.mean_s,
            spread_s=self._spread_s(started, usual),
        )

    # ------------------------------------------------------------ answers

    def _start_of(self, line: _Line, position: int) -> _Started | None:
        known = line.starts
        if position <= len(known):
            return known[position - 1]
        if not self.cut_short:
            return None  # nothing that is known will ever start it
        backend = known[-1].backend if known else self._models[line.model].backends[0]
        at = self._in_order_of_age(line, position)
        if known:
            at = max(at, known[-1].at + (position - len(known)) * self._pace_s(line))
        return _Started(at, backend)

    def _in_order_of_age(self, line: _Line, position: int) -> float:
        """Return when a job starts if all lines go on at the pace of all together.

        Where many models take turns, a line's own pace is that of its turns and far too fast;
        since turns are given by age, what counts is how many older jobs wait anywhere.
        """
        begun = sum(len(other.starts) for other in self._lines.values())
        waited = sum(other.view.count for other in self._lines.values())
        older = waited * min(1.0, position / max(1, line.view.count))
        pace_s = (self._world.now - self._origin.now) / max(1, begun)
        return max(self._world.now, self._origin.now + older * pace_s)

    def _pace_s(self, line: _Line) -> float:
        """Return the seconds from one start of a line to the next, as far as it was seen."""
        starts = line.starts
        if len(starts) > 4:
            half = len(starts) // 2
            return (starts[-1].at - starts[half].at) / max(1, len(starts) - 1 - half)
        model = self._models[line.model]
        slots = sum(model.parallel for copy in self._copies.values() if copy.model == model.name)
        return _typical_s(model, starts[-1].backend) / max(1, slots)

    def _spread_s(self, started: _Started, usual: Usual) -> float:
        """Return the spread of a sum: what independent jobs ahead add grows with their root."""
        waits_s = max(0.0, started.at - self._origin.now)
        return usual.spread_s * sqrt(1 + waits_s / max(usual.mean_s, 0.001))

    # ------------------------------------------------------------ one step into the future

    def _first_events(self) -> list[tuple[float, int, str, str]]:
        """Return what is under way: (moment, what, model, backend) of jobs, loads and unloads."""
        now, events = self._origin.now, []
        for copy in self._copies.values():
            model = self._models.get(copy.model)
            match copy.residency:
                case Residency.LOADING:
                    least = OVERDUE_SHARE * _load_s(model, copy.backend)
                    events.append((max(copy.ready_at, now + least), _LOADED, *_key(copy)))
                case Residency.UNLOADING:
                    events.append((now + LEAVING_S, _LEFT, *_key(copy)))
                case Residency.READY:
                    events.extend(
                        (ends_at, _ENDED, *_key(copy)) for ends_at in _ends(copy, model, now)
                    )
        events += [
            (line.next_arrival_at(), _CAME, line.model, "")
            for line in self._lines.values()
            if not line.view.count
        ]
        heapify(events)
        return events

    def _step(self) -> None:
        """Decide at the present moment, then go to the next one that asks for a decision."""
        self._plans_left -= 1
        answer = plan_moves(self._world)
        self._carry_out(answer)
        shown = Counter((start.job.model, start.job.lane) for start in answer.starts)
        if max(shown.values(), default=0) >= HEADS:
            self._show(self._world.now, answer)  # more of that line may start in this moment
        else:
            self._pass_time(answer)
        self.cut_short = self._starts_left <= 0 or self._plans_left <= 0
        self._over = self._over or self.cut_short

    def _pass_time(self, answer: Plan) -> None:
        """Let time pass until there is something to decide.

        A copy that goes on with the next job of its line needs no decision: most events of a long
        line are such, and asking the planner each time would cost ten times as much.
        """
        look_at = inf if answer.look_at is None else answer.look_at
        kept = {reservation.host: reservation for reservation in answer.reservations}
        now = self._world.now
        obvious = True
        while obvious and self._starts_left > 0:
            now = max(now, min(look_at, self._events[0][0] if self._events else inf))
            if now == inf:
                self._over = True
                return
            obvious = now < look_at
            while self._events and self._events[0][0] <= now:
                _, what, model, backend = heappop(self._events)
                self._happen(now, what, model, backend)
                obvious = (
                    obvious
                    and what == _ENDED
                    and not self._is_gated(kept, model, backend)
                    and self._goes_on(now, model, backend)
                )
        self._show(now, answer)

    def _is_gated(self, kept: Mapping[str, Reservation], model: str, backend: str) -> bool:
        reservation = kept.get(self._backends[backend].host)
        return reservation is not None and (
            self._backends[backend].serial
            or Evict(model=model, backend=backend) in reservation.victims
        )

    def _goes_on(self, now: float, model: str, backend: str) -> bool:
        """Start the next job of a line on the copy that has just ended one, if that is plain."""
        lines = self._lines_of.get(model, [])
        view = self._backends[backend]
        alone = not view.serial or sum(key[1] == backend for key in self._copies) == 1
        if len(lines) != 1 or model in self._pausing or not alone or view.alone:
            return False
        line = lines[0]
        if len(line.starts) >= line.count(now) or not view.up or view.paused:
            return False
        job = line.job(len(line.starts))
        if job.suspect:
            return False
        self._start(now, job, backend)
        return True

    def _happen(self, now: float, what: int, model: str, backend: str) -> None:
        if what == _CAME:
            self._moved.add(model)
            return
        copy = self._copies.get((model, backend))
        if copy is None:
            return
        if what == _LEFT:
            del self._copies[model, backend]
        elif what == _LOADED:
            self._copies[model, backend] = replace(
                copy, residency=Residency.READY, ready_at=min(copy.ready_at, now)
            )
            self._occupy(backend, -1 if self._backends[backend].serial else 0)
        else:
            self._copies[model, backend] = replace(copy, running=copy.running - 1)
            self._occupy(backend, -1)

    def _occupy(self, backend: str, more: int) -> None:
        view = self._backends[backend]
        self._backends[backend] = replace(view, busy=max(0, view.busy + more), alone=False)

    # ------------------------------------------------------------ carrying out a plan

    def _carry_out(self, answer: Plan) -> None:
        now = self._world.now
        for start in answer.starts:
            self._start(now, start.job, start.backend)
        for load in answer.loads:
            self._load(now, load)
        for evict in answer.evictions:
            self._evict(now, evict.model, evict.backend)

    def _start(self, now: float, job: Job, backend: str) -> None:
        line = self._lines[job.model, job.lane]
        known = len(line.starts) < len(line.view.heads)
        seconds = (
            self._service(job, backend).mean_s
            if known
            else _typical_s(self._models[job.model], backend)
        )
        line.starts.append(_Started(now, backend))
        copy = self._copies[job.model, backend]
        self._copies[job.model, backend] = replace(copy, running=copy.running + 1)
        self._occupy(backend, 1)
        heappush(self._events, (now + seconds, _ENDED, job.model, backend))
        self._starts_left -= 1
        self._moved.add(job.model)

    def _load(self, now: float, load: Load) -> None:
        for evict in load.evict:
            self._evict(now, evict.model, evict.backend)
        model = self._models[load.model]
        ready_at = now + _load_s(model, load.backend)
        self._copies[load.model, load.backend] = Copy(
            model=load.model,
            backend=load.backend,
            residency=Residency.LOADING,
            ready_at=ready_at,
            vram_mb=model.vram_mb,
        )
        self._occupy(load.backend, 1 if self._backends[load.backend].serial else 0)
        heappush(self._events, (ready_at, _LOADED, load.model, load.backend))

    def _evict(self, now: float, model: str, backend: str) -> None:
        self._copies.pop((model, backend), None)
        if model in self._models:
            self._models[model] = replace(self._models[model], left_at=now)

    # ------------------------------------------------------------ the world to decide on next

    def _show(self, now: float, answer: Plan) -> None:
        """Make the world of that moment from what has happened since the last one."""
        for name in self._moved | self._pausing:
            self._models[name] = replace(self._models[name], waiting=self._waiting(name, now))
        self._moved.clear()
        self._world = replace(
            self._world,
            now=now,
            models=self._models,
            backends=self._backends,
            copies=tuple(self._copies.values()),
            reservations=answer.reservations,
            lane_credit=answer.lane_credit,
        )

    def _waiting(self, model: str, now: float) -> tuple[Waiting, ...]:
        views = []
        for line in self._lines_of[model]:
            done, count = len(line.starts), line.count(now)
            if done < count:
                heads = self._heads(line, done, count, now)
                views.append(replace(line.view, count=count - done, heads=heads))
            elif line.rate_per_s > 0:
                heappush(self._events, (line.next_arrival_at(), _CAME, model, ""))
        return tuple(views)

    def _heads(self, line: _Line, done: int, count: int, now: float) -> tuple[Job, ...]:
        view = line.view
        pausing = (
            view.count > 0
            and not view.heads
            and (view.next_start_at is None or view.next_start_at > now)
        )
        last = done if pausing else min(done + HEADS, count)
        return tuple(line.job(index) for index in range(done, last))


def _lines(model: ModelView, now: float) -> list[_Line]:
    """Return the lines of a model, with further arrivals at the end of the longest."""
    views = model.waiting or (Waiting(lane="normal", count=0, heads=(), oldest_at=now),)
    longest = max(views, key=lambda view: view.count)
    return [
        _Line(model.name, view, now, model.rate_per_s if view is longest else 0.0) for view in views
    ]


def with_job(world: World, job: Job, now: float) -> World:
    """Return the world at that moment with one more job at the end of its line.

    For a forecast at acceptance, before the router has seen the job. Raises `KeyError` when the
    world knows nothing of the model; the caller then adds its view.
    """
    model = world.models[job.model]
    line = next((w for w in model.waiting if w.lane == job.lane), None)
    if line is None:
        longer = Waiting(lane=job.lane, count=1, heads=(job,), oldest_at=job.queued_at)
    else:
        whole = line.count == len(line.heads)
        heads = (*line.heads, job) if whole else line.heads
        longer = replace(line, count=line.count + 1, heads=heads)
    others = tuple(w for w in model.waiting if w.lane != job.lane)
    models = {**world.models, job.model: replace(model, waiting=(*others, longer))}
    return replace(world, now=now, models=models)


# ---------------------------------------------------------------- helpers

_LOADED, _LEFT, _ENDED, _CAME = range(4)
_NOTHING = TextToImage(prompt="")


def _key(copy: Copy) -> tuple[str, str]:
    return copy.model, copy.backend


def _ends(copy: Copy, model: ModelView | None, now: float) -> list[float]:
    """Return when the running jobs of a copy will end; overdue ones soon."""
    usual_s = _typical_s(model, copy.backend)
    known = list(copy.ends_at[: copy.running])
    known += [now + usual_s / 2] * (copy.running - len(known))
    return [max(ends_at, now + OVERDUE_SHARE * usual_s) for ends_at in known]


def _load_s(model: ModelView | None, backend: str) -> float:
    times: Mapping[str, float] = {} if model is None else model.load_s
    return times.get(backend, times.get("", DEFAULT_LOAD_S))


def _typical_s(model: ModelView | None, backend: str) -> float:
    times: Mapping[str, float] = {} if model is None else model.service_s
    return times.get(backend, times.get("", DEFAULT_SERVICE_S))


def _stand_in(model: str, lane: str, queued_at: float) -> Job:
    """Return a job that takes the place of one the snapshot does not name."""
    return Job(
        id=0,
        model=model,
        request=_NOTHING,
        owner="",
        lane=lane,
        parent=None,
        reply_to="",
        state=JobState.PENDING,
        seq=None,
        attempt=0,
        version=0,
        not_before=0.0,
        queued_at=queued_at,
        started_at=None,
        finished_at=None,
        backend=None,
        suspect=False,
        error=None,
        acknowledged=False,
    )
