"""The simulation: one world run forward, step by step, by asking the planner.

Pure. Assumes that requests keep arriving at their present rates and that nothing fails.
"""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from math import inf

from queueing.core.jobs import Job
from queueing.core.world import Copy, Load, ModelView, Residency, World
from queueing.planning import decide, decided
from queueing.planning.board import Board
from queueing.planning.board_states import CopyState, HostState, ModelState
from queueing.planning.dispatch import spent
from queueing.planning.estimates import Usual
from queueing.planning.gates import kept_hosts
from queueing.planning.lanes import cost, lanes_of, levelled
from queueing.planning.lying_on import hosts_of
from queueing.planning.rests import next_quiet
from queueing.planning.simulated_fleet import (
    began,
    ended,
    evicted,
    has_slot,
    left,
    loaded,
    loading,
    preference,
    serves,
    serves_all,
    typical_s,
    usual_load_s,
    world_of,
)
from queueing.planning.simulated_queue import Closed, SimulatedQueue, Started, lines_of
from queueing.planning.space import candidates, could_fit, places_for, surplus
from queueing.planning.time_left import has_time

MOST_PLANS = 500  # a start costs little beside the plans that lead to it
LOOKS_AT_MODELS = 8_000  # all those plans together, so that many models cost no more than a few
FAR_STARTS = 500  # from here on another forecast costs more than most answers are worth
OVERDUE_SHARE = 0.15  # of the usual time: the rest of a job or load that should be done by now
LEAVING_S = 2.0  # an unload under way

Service = Callable[[Job, str], Usual]
"""How long this job takes on that backend."""

_LOADED, _LEFT, _ENDED, _CAME = range(4)


class Simulation:
    """What will probably happen, as far as `step` has been called.

    `over` says that no further step will change anything; `cut_short` that this is only because it
    has looked as far ahead as it may. Decisions and events since are recorded on one board, on
    which the next decision is made: a new board each time would cost most of the forecast.
    """

    def __init__(self, world: World, service: Service, *, most_starts: int) -> None:
        quiet = any(host.quiet for host in world.hosts.values())
        self.lines = {
            (line.model, line.view.lane): line
            for model in world.models.values()
            for line in lines_of(
                model, world.now, world.watched_s, _closed(world, model) if quiet else None
            )
        }
        self.over = False
        self.cut_short = False
        self.now = world.now  # the moment it has reached
        self._service = service
        self._started, self._starts_left = 0, most_starts
        self._plans_left = min(MOST_PLANS, LOOKS_AT_MODELS // max(1, len(world.models)))
        self._origin = world
        self._board = Board(world)
        self._lines_of = {
            name: [line for line in self.lines.values() if line.model == name]
            for name in world.models
        }
        self._pausing = {
            name
            for (name, _), line in self.lines.items()
            if line.view.count and (not line.view.heads or world.models[name].paused)
        }
        self._remembered = {
            line.model
            for line in self.lines.values()
            if any(job.remembered_by is not None for job in line.view.heads)
        }
        self._moved: set[str] = set()
        self._spent = dict(world.lane_spent)
        self._joined = False  # whether the first to ask for a model has been left to wait
        self._coming: set[tuple[str, str]] = set()  # the lines whose next arrival is an event
        # Since when one more job of a model would have begun, or asked for a load.
        self._rested = {name: world.now for name in world.models if self._may_rest(name, world.now)}
        self._events = self._first_events()

    @property
    def far(self) -> bool:
        """Whether it has looked so far ahead that another such look would cost much."""
        return self.cut_short or self._started >= FAR_STARTS

    @property
    def world(self) -> World:
        """The world of the next decision."""
        return world_of(self._board, self._origin, self._board.reservations, self._spent)

    def of_model(self, model: str) -> Sequence[SimulatedQueue]:
        """Return the lines of a model."""
        return self._lines_of.get(model, ())

    def slots(self, model: str) -> int:
        """Return how many jobs of a model can run at once at that moment."""
        state = self._board.models[model]
        return len(state.copies) * state.view.parallel

    def join(self, line: SimulatedQueue, job: Job, place: int, more: int) -> bool:
        """Let a job that has come since into its line, behind all that were expected by now.

        `more` jobs than expected wait then. Returns False if it would have begun, or asked for a
        load, before the moment that has been reached: then what was found out is no longer true.
        """
        rested_at, first = self._rested.get(line.model, inf), place == 0 or bool(line.view.heads)
        if self.over or rested_at < self.now or line.model in self._pausing or not first:
            return False
        self._rested.pop(line.model, None)
        line.join(job, place, more)
        self._show_lines(self._board.models[line.model], self.now)
        self._board.renew()
        return True

    def _may_rest(self, model: str, now: float) -> bool:
        """Whether another job of a model would begin at once, or ask for a load."""
        waits = [line.has_waiting(now) for line in self._lines_of[model]]
        if all(waits):
            return False
        copies = self._board.models[model].copies
        return len(waits) > 1 or not copies or any(has_slot(copy) for copy in copies)

    # ------------------------------------------------------------ one step

    def _first_events(self) -> list[tuple[float, int, str, str]]:
        """Return what is under way: (moment, what, model, backend) of jobs, loads and unloads.

        Of the first one to come to an empty line the last is its lane.
        """
        now, events = self.now, []
        for copy in self._origin.copies:
            model = self._origin.models.get(copy.model)
            match copy.residency:
                case Residency.LOADING:
                    least = OVERDUE_SHARE * usual_load_s(model, copy.backend)
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
        """Decide at the present moment, then go to the next one that needs a decision."""
        self._plans_left -= 1
        self._decide()
        again = self._carry_out()
        if again:
            self._show()  # more of that line may start in this moment
        else:
            self._pass_time()
        self.cut_short = self._starts_left <= 0 or self._plans_left <= 0
        self.over = self.over or self.cut_short

    def _decide(self) -> None:
        """Decide on the board; conversations' wishes are compared with what others would get."""
        if self._remembered and any(
            len(self._board.models[name].copies) > 1 for name in self._remembered
        ):
            world = self.world
            self._board.dissolve()
            self._board = decided(world)
        else:
            decide(self._board)

    def _carry_out(self) -> bool:
        """Record the decisions; return whether a line began everything it showed."""
        board = self._board
        self._spent = spent(board)
        for start in board.starts:
            board.backends[start.backend].alone = False
            line = self.lines[start.job.model, start.job.lane]
            self._note_start(line, start.backend, self.now)
        for load in board.loads:
            self._note_load(load)
        for evict in board.evictions:
            evicted(board, evict.model)
        return any(
            lane.left > 0 and lane.taken >= len(lane.heads)
            for name in {start.job.model for start in board.starts}
            for lane in board.models[name].lanes
            if lane.taken
        )

    def _pass_time(self) -> None:
        """Let time pass until a decision is needed.

        A copy that continues with the next job of its line needs no decision: most events of a long
        line are such, and asking the planner each time would cost ten times as much.
        """
        look_at = inf if self._board.look_at is None else self._board.look_at
        events, now = self._events, self.now
        obvious = True
        while obvious and self._starts_left > 0:
            now = max(now, min(look_at, events[0][0] if events else inf))
            if now == inf:
                self.over = True
                return
            obvious = now < look_at
            while events and events[0][0] <= now:
                _, what, model, where = heappop(events)
                self._happen(now, what, model, where)
                obvious = obvious and self._is_plain(now, what, model, where)
                if what == _ENDED and not obvious:
                    self._note_slot(now, model)
            if self._joined:  # none of them may be overdue before anything else happens
                self._joined = False
                look_at = min(look_at, now + self._origin.rules.age_limit_s)
        self.now = now
        self._show()

    def _is_plain(self, now: float, what: int, model: str, where: str) -> bool:
        """Handle the consequences of an event if they are plain: `where` is a backend, or a lane."""
        if what == _ENDED:
            copy = self._board.copies.get((model, where))
            return copy is not None and (
                self._goes_on(now, copy) or self._works_on(now, copy) or self._rests(now, copy)
            )
        if what == _CAME:
            return (
                self._joins(now, model)
                or self._begins(now, model, where)
                or self._is_shut_out(now, model)
            )
        return False

    def _goes_on(self, now: float, copy: CopyState) -> bool:
        """Start the next job of a line on the copy that has just ended one, if that is plain."""
        model = copy.model.view.name
        lines = self._left_in(model, now)
        if not lines:
            self._rested.setdefault(model, now)
            return False
        if not self._takes_next(copy):
            return False
        for line in lines:
            if not self._lets(now, copy, line):
                return False
        began(copy)
        self._note_start(lines[self._next_lane(model, lines)], copy.backend.view.name, now)
        return True

    def _takes_next(self, copy: CopyState) -> bool:
        """Whether nothing but a gate keeps a copy from the next job of its line."""
        if copy.model.view.name in self._pausing or self._board.giving_way:
            return False
        backend = copy.backend
        return backend.usable and not (backend.view.serial and len(backend.copies) > 1)

    def _lets(self, now: float, copy: CopyState, line: SimulatedQueue) -> bool:
        """Whether the next job of a line may begin on a copy with a free slot."""
        if copy.gate is None and line.next_head is None and not self._board.quiet:
            return True  # nearly all of a long line: nothing is known that could be against it
        job = line.job(len(line.starts))
        if job.suspect or (copy.gate is not None and not copy.gate.admits(job, now)):
            return False
        return has_time(self._board, copy, job, now)

    def _works_on(self, now: float, copy: CopyState) -> bool:
        """Whether a copy only has a spare slot: no job waits for it, and others still run."""
        return copy.running > 0 and self._is_at_end(now, copy)

    def _rests(self, now: float, copy: CopyState) -> bool:
        """Whether it changes nothing that a copy is idle: nothing can be loaded in its place yet."""
        if not self._is_at_end(now, copy):
            return False
        return all(self._is_kept(now, host) for host in copy.hosts)

    def _is_kept(self, now: float, host: HostState) -> bool:
        """Whether nothing can be loaded on a host whatever is idle there, nor must leave it."""
        if host.used_mb > host.view.usable_mb:
            return False
        if host.loading is not None:
            return True
        if host.reservation is None:
            return False
        board = self._board
        hosts = kept_hosts(board, host.reservation)
        for each in hosts:
            for other in each.copies:
                if other.model.view.name in self._moved:
                    self._show_lines(other.model, now)
            each.spare_mb = None
        heir = board.models[host.reservation.model]
        return not could_fit(board, heir, board.backends[host.reservation.backend])

    def _is_at_end(self, now: float, copy: CopyState) -> bool:
        """Whether no job waits for a slot that has become free on a copy, or beside it."""
        model, backend = copy.model.view.name, copy.backend
        if backend.view.serial or backend.busy + 1 >= backend.view.parallel:
            return False
        return model not in self._pausing and not self._left_in(model, now)

    def _begins(self, now: float, model: str, lane: str) -> bool:
        """Let an arrival in an empty line start on a copy, or wait for one, if that is plain."""
        copies = self._board.models[model].copies
        if model in self._pausing or not copies:
            return False
        lines = self._left_in(model, now)
        if [line.view.lane for line in lines] != [lane]:
            return False
        job = lines[0].job(len(lines[0].starts))
        if any(host.closes_at < inf for copy in copies for host in copy.hosts):
            return False
        free = [copy for copy in copies if has_slot(copy) and serves(copy, job, now)]
        if not free:
            return all(serves_all(copy) for copy in copies)
        copy = min(free, key=preference)
        self._next_lane(model, lines)
        began(copy)
        self._note_start(lines[0], copy.backend.view.name, now)
        return True

    def _is_shut_out(self, now: float, model: str) -> bool:
        """Whether the first to ask for a model can only wait: no host could load it now."""
        state = self._board.models[model]
        if state.copies or model in self._pausing or state.view.load_after > now:
            return False
        if places_for(self._board, state) or self._has_surplus(state):
            return False
        self._joined = any(host.reservation is None for host in self._board.hosts.values())
        return True

    def _has_surplus(self, model: ModelState) -> bool:
        """Whether a copy would give way to a model on one of its hosts."""
        return self._board.doubles > 0 and any(
            surplus(host)
            for backend in candidates(self._board, model)
            for host in model.hosts_at(backend)
        )

    def _left_in(self, model: str, now: float) -> list[SimulatedQueue]:
        """Return the lines of a model with waiting jobs at that moment."""
        return [line for line in self._lines_of.get(model, ()) if line.has_waiting(now)]

    def _next_lane(self, model: str, lines: Sequence[SimulatedQueue]) -> int:
        """Return the line whose turn it is, and charge its lane."""
        if len(self._lines_of[model]) < 2:
            return 0
        names = [line.view.lane for line in lines]
        before = levelled(model, names, self._spent) if len(names) > 1 else {}
        for line in self._lines_of[model]:
            self._spent.pop((model, line.view.lane), None)
        if not before:
            return 0
        costs = [cost(lane, self._origin.rules.lane_weights) for lane in names]
        picked = min(range(len(names)), key=lambda i: before[names[i]] + costs[i] // 2)
        before[names[picked]] += costs[picked]
        self._spent.update({(model, lane): spent for lane, spent in before.items()})
        return picked

    def _joins(self, now: float, model: str) -> bool:
        """Whether an arrival in an empty line only joins jobs waiting in other lines already.

        One that comes to another empty line in the same moment does not wait already.
        """
        if model in self._pausing or not self._board.models[model].lanes:
            return False
        lines = self._left_in(model, now)
        return len(lines) > 1 and any(line.job(len(line.starts)).queued_at < now for line in lines)

    def _happen(self, now: float, what: int, model: str, where: str) -> None:
        if what == _CAME:
            self._moved.add(model)
            self._coming.discard((model, where))
            return
        copy = self._board.copies.get((model, where))
        if copy is None:
            return
        self._note_free(now, copy)
        if what == _LEFT:
            left(self._board, copy)
        elif what == _LOADED:
            loaded(copy)
            if model in self._lines_of:
                self._moved.add(model)  # more may have joined its line while it was loaded
        else:
            ended(copy)

    def _note_slot(self, now: float, model: str) -> None:
        """Note that a slot is free for the next decision, whose lines must show who may start."""
        if self._left_in(model, now):
            self._moved.add(model)
        else:
            self._rested.setdefault(model, now)

    def _note_free(self, now: float, copy: CopyState) -> None:
        """Note that other copies of its server have room if they wait for no more than that."""
        backend = copy.backend
        full = backend.view.serial or backend.busy >= backend.view.parallel
        if full and len(backend.copies) > 1:
            for other in backend.copies:
                self._rested.setdefault(other.model.view.name, now)

    # ------------------------------------------------------------ what begins

    def _note_start(self, line: SimulatedQueue, backend: str, now: float) -> None:
        """Note that the next job of a line has begun."""
        head, name = line.next_head, line.model
        seconds = (
            typical_s(self._board.models[name].view, backend)
            if head is None
            else self._service(head, backend).mean_s
        )
        line.start(Started(now, backend))
        heappush(self._events, (now + seconds, _ENDED, name, backend))
        self._started, self._starts_left = self._started + 1, self._starts_left - 1
        self._moved.add(name)
        if not line.has_waiting(now):
            self._expect_in(line)
            if name not in self._rested and self._may_rest(name, now):
                self._rested[name] = now

    def _note_load(self, load: Load) -> None:
        for evict in load.evict:
            evicted(self._board, evict.model)
        copy = loading(self._board, load)
        heappush(self._events, (copy.view.ready_at, _LOADED, load.model, load.backend))

    # ------------------------------------------------------------ the board of the next decision

    def _show(self) -> None:
        """Prepare the board for the decision of that moment."""
        for name in self._moved | self._pausing:
            self._show_lines(self._board.models[name], self.now)
        self._moved.clear()
        self._board.again(self.now)

    def _show_lines(self, model: ModelState, now: float) -> None:
        waiting = []
        slots = sum([model.view.parallel - copy.running for copy in model.copies])
        for line in self._lines_of[model.view.name]:
            view = line.waiting(now, slots)
            if view is None:
                self._expect_in(line)
            else:
                waiting.append(view)
        weights = self._origin.rules.lane_weights
        model.lanes = lanes_of(model.view, waiting, self._spent, weights)
        model.note_lanes()

    def _expect_in(self, line: SimulatedQueue) -> None:
        """Schedule the next arrival in an empty line as an event."""
        key = line.model, line.view.lane
        if line.rate_per_s > 0 and key not in self._coming:
            self._coming.add(key)
            heappush(self._events, (line.next_arrival_at(), _CAME, *key))


def _closed(world: World, model: ModelView) -> Closed | None:
    """Return when next no host can serve a model because all have quiet hours, None for never."""
    known = [world.backends[name] for name in model.backends if name in world.backends]
    hosts = {host for backend in known for host in hosts_of(backend)}
    spans = [next_quiet(world.hosts[name], world.now) for name in hosts]
    begins_at = max((span[0] for span in spans if span is not None), default=inf)
    ends_at = min((span[1] for span in spans if span is not None), default=inf)
    if None in spans or begins_at >= ends_at:
        return None
    return Closed(max(begins_at, world.now), ends_at)


def _key(copy: Copy) -> tuple[str, str]:
    return copy.model, copy.backend


def _ends(copy: Copy, model: ModelView | None, now: float) -> list[float]:
    """Return when the running jobs of a copy will end; overdue ones soon."""
    usual_s = typical_s(model, copy.backend)
    known = list(copy.ends_at[: copy.running])
    known += [now + usual_s / 2] * (copy.running - len(known))
    return [max(ends_at, now + OVERDUE_SHARE * usual_s) for ends_at in known]
