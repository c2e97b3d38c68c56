"""The simulation: one world run forward, step by step, by asking the planner.

Pure. Assumes that requests go on coming at their present rates and that nothing fails.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from math import inf

from queueing.core.jobs import Job
from queueing.core.world import (
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
from queueing.planning import plan_moves
from queueing.planning.board import DEFAULT_LOAD_S, DEFAULT_SERVICE_S, Gate
from queueing.planning.estimates import Usual
from queueing.planning.gates import gate_for
from queueing.planning.lanes import cost, levelled
from queueing.planning.simulated_queue import SimulatedQueue, Started, lines_of

MOST_PLANS = 500  # a start costs little beside the plans that lead to it
LOOKS_AT_MODELS = 12_500  # all those plans together, so that many models cost no more than a few
FAR_STARTS = 500  # from here on another forecast costs more than most answers are worth
OVERDUE_SHARE = 0.15  # of the usual time: the rest of a job or load that should be done by now
LEAVING_S = 2.0  # an unload under way
HEADS = 3  # heads shown to the planner; more only start in the same moment

Service = Callable[[Job, str], Usual]
"""How long this job takes on that backend."""

_LOADED, _LEFT, _ENDED, _CAME = range(4)


class Simulation:
    """What will probably happen, as far as `step` has been called.

    `over` tells that no further step will change anything; `cut_short` that this is only because
    it has looked as far ahead as it may.
    """

    def __init__(self, world: World, service: Service, *, most_starts: int) -> None:
        self.lines = {
            (line.model, line.view.lane): line
            for model in world.models.values()
            for line in lines_of(model, world.now, world.watched_s)
        }
        self.over = False
        self.cut_short = False
        self._service = service
        self._started, self._starts_left = 0, most_starts
        self._plans_left = min(MOST_PLANS, LOOKS_AT_MODELS // max(1, len(world.models)))
        self._world = world
        self._lines_of = {
            name: [line for line in self.lines.values() if line.model == name]
            for name in world.models
        }
        self._models = dict(world.models)
        self._backends = dict(world.backends)
        self._copies = {(copy.model, copy.backend): copy for copy in world.copies}
        self._pausing = {
            name
            for (name, _), line in self.lines.items()
            if line.view.count and (not line.view.heads or world.models[name].paused)
        }
        self._moved: set[str] = set()
        self._running = {key: copy.running for key, copy in self._copies.items()}
        self._busy = {name: view.busy for name, view in self._backends.items()}
        self._touched: set[tuple[str, str]] = set()  # copies whose running jobs have changed
        self._spent = dict(world.lane_spent)
        self._coming: set[tuple[str, str]] = set()  # the lines whose next arrival is an event
        self._events = self._first_events()

    @property
    def far(self) -> bool:
        """Whether it has looked so far ahead that another such look would cost much."""
        return self.cut_short or self._started >= FAR_STARTS

    @property
    def now(self) -> float:
        """The moment it has got to."""
        return self._world.now

    def of_model(self, model: str) -> Sequence[SimulatedQueue]:
        """Return the lines of a model."""
        return self._lines_of.get(model, ())

    def slots(self, model: str) -> int:
        """Return how many jobs of a model can run at once at that moment."""
        copies = sum(copy.model == model for copy in self._copies.values())
        return copies * self._models[model].parallel

    # ------------------------------------------------------------ one step

    def _first_events(self) -> list[tuple[float, int, str, str]]:
        """Return what is under way: (moment, what, model, backend) of jobs, loads and unloads.

        Of the first one to come to an empty line the last is its lane.
        """
        now, events = self._world.now, []
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
            (line.next_arrival_at(), _CAME, line.model, line.view.lane)
            for line in self.lines.values()
            if not line.view.count and line.rate_per_s > 0
        ]
        self._coming = {(model, lane) for _, what, model, lane in events if what == _CAME}
        heapify(events)
        return events

    def step(self) -> None:
        """Decide at the present moment, then go to the next one that asks for a decision."""
        self._plans_left -= 1
        answer = plan_moves(self._world)
        self._carry_out(answer)
        self._spent = dict(answer.lane_spent)
        shown = Counter((start.job.model, start.job.lane) for start in answer.starts)
        if max(shown.values(), default=0) >= HEADS:
            self._show(self._world.now, answer)  # more of that line may start in this moment
        else:
            self._pass_time(answer)
        self.cut_short = self._starts_left <= 0 or self._plans_left <= 0
        self.over = self.over or self.cut_short

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
                self.over = True
                return
            obvious = now < look_at
            while self._events and self._events[0][0] <= now:
                _, what, model, backend = heappop(self._events)
                self._happen(now, what, model, backend)
                obvious = obvious and self._is_plain(now, what, model, backend, kept)
        self._show(now, answer)

    def _is_plain(
        self, now: float, what: int, model: str, where: str, kept: Mapping[str, Reservation]
    ) -> bool:
        """Do what follows from an event, if that is plain: `where` is a backend, or a lane."""
        if what == _ENDED:
            goes_on = self._goes_on(now, model, where, kept)
            return goes_on or self._works_on(now, model, where)
        if what == _CAME:
            return self._joins(now, model) or self._begins(now, model, where, kept)
        return False

    def _goes_on(
        self, now: float, model: str, backend: str, kept: Mapping[str, Reservation]
    ) -> bool:
        """Start the next job of a line on the copy that has just ended one, if that is plain."""
        lines = self._left_in(model, now)
        view = self._backends[backend]
        alone = not view.serial or sum(key[1] == backend for key in self._copies) == 1
        if not lines or model in self._pausing or not alone or not view.up or view.paused:
            return False
        gate = self._gate(model, backend, kept)
        jobs = [line.job(len(line.starts)) for line in lines]
        if any(job.suspect or not (gate is None or gate.admits(job, now)) for job in jobs):
            return False
        self._start(now, jobs[self._next_lane(model, lines)], backend)
        return True

    def _works_on(self, now: float, model: str, backend: str) -> bool:
        """Whether a copy only has a slot more than it needs: nobody waits for it, others still run."""
        if self._running.get((model, backend), 0) <= 0 or self._backends[backend].serial:
            return False
        return model not in self._pausing and not self._left_in(model, now)

    def _begins(self, now: float, model: str, lane: str, kept: Mapping[str, Reservation]) -> bool:
        """Let one who comes to an empty line begin on a copy, or wait for one, if that is plain."""
        copies = [key for key, copy in self._copies.items() if key[0] == model]
        lines = self._left_in(model, now)
        if model in self._pausing or [line.view.lane for line in lines] != [lane]:
            return False
        if not all(self._plain(key, kept) for key in copies):
            return False
        free = [backend for _, backend in copies if self._has_slot(model, backend)]
        if free:
            line = lines[self._next_lane(model, lines)]
            self._start(now, line.job(len(line.starts)), min(free, key=self._preference))
        return bool(copies)

    def _plain(self, key: tuple[str, str], kept: Mapping[str, Reservation]) -> bool:
        """Whether a copy starts whoever comes: it is ready, and its host serves and is not reserved."""
        view = self._backends[key[1]]
        ready = self._copies[key].residency is Residency.READY
        can = view.up and not view.paused and not view.alone
        return ready and can and view.host not in kept

    def _has_slot(self, model: str, backend: str) -> bool:
        view = self._backends[backend]
        if self._busy[backend] >= (1 if view.serial else view.parallel):
            return False
        return self._running[model, backend] < self._models[model].parallel

    def _preference(self, backend: str) -> tuple[int, int]:
        """Order free backends as the planner does: the fewest jobs on their host, then their order."""
        host = self._backends[backend].host
        there = {name for name, view in self._backends.items() if view.host == host}
        running = sum(number for (_, name), number in self._running.items() if name in there)
        return running, list(self._backends).index(backend)

    def _left_in(self, model: str, now: float) -> list[SimulatedQueue]:
        """Return the lines of a model in which somebody waits at that moment."""
        return [
            line for line in self._lines_of.get(model, ()) if len(line.starts) < line.count(now)
        ]

    def _next_lane(self, model: str, lines: Sequence[SimulatedQueue]) -> int:
        """Return which of the lines has its turn, and note what that costs it."""
        names = [line.view.lane for line in lines]
        before = levelled(model, names, self._spent) if len(names) > 1 else {}
        for line in self._lines_of[model]:
            self._spent.pop((model, line.view.lane), None)
        if not before:
            return 0
        costs = [cost(lane, self._world.rules.lane_weights) for lane in names]
        picked = min(range(len(names)), key=lambda i: before[names[i]] + costs[i] // 2)
        before[names[picked]] += costs[picked]
        self._spent.update({(model, lane): spent for lane, spent in before.items()})
        return picked

    def _joins(self, now: float, model: str) -> bool:
        """Whether one who comes to an empty line only joins those who wait in others already."""
        waits = any(w.count for w in self._models[model].waiting)
        return waits and model not in self._pausing and len(self._left_in(model, now)) > 1

    def _gate(self, model: str, backend: str, kept: Mapping[str, Reservation]) -> Gate | None:
        """Return the gate on a copy while those reservations hold, None without one."""
        reservation = kept.get(self._backends[backend].host)
        if reservation is None:
            return None
        shares = reservation.backend == backend and self._backends[backend].serial
        if not shares and Evict(model=model, backend=backend) not in reservation.victims:
            return None
        load_s = _load_s(self._models[reservation.model], reservation.backend)
        return gate_for(
            reservation.model,
            reservation.due,
            self._copies[model, backend].ready_at,
            swap_s=load_s + _load_s(self._models.get(model), backend),
            patience=self._world.rules.patience,
        )

    def _happen(self, now: float, what: int, model: str, backend: str) -> None:
        if what == _CAME:
            self._moved.add(model)
            self._coming.discard((model, backend))
            return
        copy = self._copies.get((model, backend))
        if copy is None:
            return
        if what == _LEFT:
            self._busy[backend] -= self._running[model, backend]  # it was to leave once they end
            self._forget(model, backend)
            self._note_rest(model, backend)
        elif what == _LOADED:
            self._copies[model, backend] = replace(
                copy, residency=Residency.READY, ready_at=min(copy.ready_at, now)
            )
            self._note_rest(model, backend)
            if model in self._models:
                self._moved.add(model)  # perhaps more have come to its line while it was loaded
        else:
            self._run(model, backend, -1)

    def _note_rest(self, model: str, backend: str) -> None:
        """Note that a serial backend is free again once the last of its copies has come or gone."""
        if self._backends[backend].serial and not any(
            key[1] == backend and copy.residency is not Residency.READY
            for key, copy in self._copies.items()
        ):
            self._busy[backend] -= 1
        self._touched.add((model, backend))

    def _run(self, model: str, backend: str, more: int) -> None:
        self._running[model, backend] += more
        self._busy[backend] += more
        self._touched.add((model, backend))

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
        line = self.lines[job.model, job.lane]
        known = len(line.starts) < len(line.view.heads)
        seconds = (
            self._service(job, backend).mean_s
            if known
            else typical_s(self._models[job.model], backend)
        )
        line.starts.append(Started(now, backend))
        self._run(job.model, backend, 1)
        heappush(self._events, (now + seconds, _ENDED, job.model, backend))
        self._started, self._starts_left = self._started + 1, self._starts_left - 1
        self._moved.add(job.model)
        if len(line.starts) >= line.count(now):
            self._expect_in(line)

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
        self._running[load.model, load.backend] = 0
        self._busy[load.backend] += self._backends[load.backend].serial
        self._touched.add((load.model, load.backend))
        heappush(self._events, (ready_at, _LOADED, load.model, load.backend))

    def _evict(self, now: float, model: str, backend: str) -> None:
        self._forget(model, backend)
        if model in self._models:
            self._models[model] = replace(self._models[model], left_at=now)

    def _forget(self, model: str, backend: str) -> None:
        self._copies.pop((model, backend), None)
        self._running.pop((model, backend), None)

    # ------------------------------------------------------------ the world to decide on next

    def _show(self, now: float, answer: Plan) -> None:
        """Make the world of that moment from what has happened since the last one."""
        for name in self._moved | self._pausing:
            self._models[name] = replace(self._models[name], waiting=self._waiting(name, now))
        self._moved.clear()
        for key in self._touched:
            self._show_running(key)
        self._touched.clear()
        self._world = replace(
            self._world,
            now=now,
            models=self._models,
            backends=self._backends,
            copies=tuple(self._copies.values()),
            reservations=answer.reservations,
            lane_spent=self._spent,
        )

    def _show_running(self, key: tuple[str, str]) -> None:
        copy, running = self._copies.get(key), self._running.get(key, 0)
        if copy is not None and copy.running != running:
            self._copies[key] = replace(copy, running=running)
        view, busy = self._backends[key[1]], max(0, self._busy[key[1]])
        if view.busy != busy or view.alone:
            self._backends[key[1]] = replace(view, busy=busy, alone=False)

    def _waiting(self, model: str, now: float) -> tuple[Waiting, ...]:
        views = []
        for line in self._lines_of[model]:
            done, count = len(line.starts), line.count(now)
            if done < count:
                heads = self._heads(line, done, count, now)
                views.append(replace(line.view, count=count - done, heads=heads))
            else:
                self._expect_in(line)
        return tuple(views)

    def _expect_in(self, line: SimulatedQueue) -> None:
        """Have the next arrival in an empty line looked at when it comes."""
        key = line.model, line.view.lane
        if line.rate_per_s > 0 and key not in self._coming:
            self._coming.add(key)
            heappush(self._events, (line.next_arrival_at(), _CAME, *key))

    def _heads(self, line: SimulatedQueue, done: int, count: int, now: float) -> tuple[Job, ...]:
        view = line.view
        pausing = (
            view.count > 0
            and not view.heads
            and (view.next_start_at is None or view.next_start_at > now)
        )
        last = done if pausing else min(done + HEADS, count)
        return tuple(line.job(index) for index in range(done, last))


def _key(copy: Copy) -> tuple[str, str]:
    return copy.model, copy.backend


def _ends(copy: Copy, model: ModelView | None, now: float) -> list[float]:
    """Return when the running jobs of a copy will end; overdue ones soon."""
    usual_s = typical_s(model, copy.backend)
    known = list(copy.ends_at[: copy.running])
    known += [now + usual_s / 2] * (copy.running - len(known))
    return [max(ends_at, now + OVERDUE_SHARE * usual_s) for ends_at in known]


def _load_s(model: ModelView | None, backend: str) -> float:
    times: Mapping[str, float] = {} if model is None else model.load_s
    return times.get(backend, times.get("", DEFAULT_LOAD_S))


def typical_s(model: ModelView | None, backend: str) -> float:
    """Return how long a job of a model takes there, whatever its size."""
    times: Mapping[str, float] = {} if model is None else model.service_s
    return times.get(backend, times.get("", DEFAULT_SERVICE_S))
