"""The simulation: runs a snapshot forward, step by step, by asking the planner.

Pure. Assumes that nothing fails and that no further requests arrive.
"""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from math import inf

from queueing.core.jobs import Job
from queueing.core.snapshot import Copy, Residency, Snapshot
from queueing.forecast.durations import DurationEstimate
from queueing.forecast.simulated_queue import SimulatedQueue, Started, queues_of
from queueing.planning.fleet_state import FleetState, has_time
from queueing.planning.lanes import cost, lanes_of, levelled
from queueing.planning.planner import decide, decided, spent
from queueing.planning.states import CopyState, ModelState

MOST_PLANS = 500  # per forecast; starts are cheap compared with the plans that lead to them
LOOKS_AT_MODELS = 8_000  # for all plans together, so that many models cost no more than a few
FAR_STARTS = 500  # from here on a new forecast costs more than most answers are worth
OVERDUE_SHARE = 0.15  # of the usual time: the remaining time of an overdue job or load
LEAVING_S = 2.0  # rest of an unload in progress

Service = Callable[[Job, str], DurationEstimate]
"""Returns how long a job takes on a backend."""

_LOADED, _LEFT, _ENDED = range(3)


class Simulation:
    """The probable future, as far as `step` has been called.

    `over` is set when no further step changes anything, and `cut_short` if that is only because the
    limit of the simulation is reached. All decisions and events are applied to one `FleetState`.
    Creating a new one for each decision would be most of the forecast's cost.
    """

    def __init__(self, snapshot: Snapshot, service: Service, *, most_starts: int) -> None:
        self.queues = {
            (queue.model, queue.view.lane): queue
            for model in snapshot.models.values()
            for queue in queues_of(model, snapshot.now)
        }
        self.over = False
        self.cut_short = False
        self.now = snapshot.now  # the simulated time
        self._service = service
        self._started, self._starts_left = 0, most_starts
        self._plans_left = min(MOST_PLANS, LOOKS_AT_MODELS // max(1, len(snapshot.models)))
        self._origin = snapshot
        self._state = FleetState(snapshot)
        self._queues_of = {
            name: [queue for queue in self.queues.values() if queue.model == name]
            for name in snapshot.models
        }
        self._pausing = {
            name
            for (name, _), queue in self.queues.items()
            if queue.view.count and (not queue.view.heads or snapshot.models[name].paused)
        }
        self._remembered = {
            queue.model
            for queue in self.queues.values()
            if any(job.remembered_by is not None for job in queue.view.heads)
        }
        self._moved: set[str] = set()
        self._spent = dict(snapshot.lane_spent)
        self._events = self._first_events()

    @property
    def far(self) -> bool:
        """Whether it has looked so far ahead that a new forecast would be expensive."""
        return self.cut_short or self._started >= FAR_STARTS

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot for the next decision."""
        return self._state.snapshot(self._origin, self._spent)

    def of_model(self, model: str) -> Sequence[SimulatedQueue]:
        """Return the queues of a model."""
        return self._queues_of.get(model, ())

    def slots(self, model: str) -> int:
        """Return how many jobs of a model can run at once at the simulated time."""
        state = self._state.models[model]
        return len(state.copies) * state.view.parallel

    # ------------------------------------------------------------ one step

    def _first_events(self) -> list[tuple[float, int, str, str]]:
        """Return what is in progress: (time, event, model, backend) of jobs, loads and unloads."""
        now, events = self.now, []
        for copy in self._origin.copies:
            model = self._state.models[copy.model]
            match copy.residency:
                case Residency.LOADING:
                    least = OVERDUE_SHARE * model.load_s(copy.backend)
                    events.append((max(copy.ready_at, now + least), _LOADED, *_key(copy)))
                case Residency.UNLOADING:
                    events.append((now + LEAVING_S, _LEFT, *_key(copy)))
                case Residency.READY:
                    events.extend(
                        (ends_at, _ENDED, *_key(copy)) for ends_at in _ends(copy, model, now)
                    )
        heapify(events)
        return events

    def step(self) -> None:
        """Decide at the simulated time, then advance to the next time that needs a decision."""
        self._plans_left -= 1
        self._decide()
        again = self._carry_out()
        if again:
            self._show()  # more of that queue may start at the same time
        else:
            self._pass_time()
        self.cut_short = self._starts_left <= 0 or self._plans_left <= 0
        self.over = self.over or self.cut_short

    def _decide(self) -> None:
        """Make the next decision. With conversations, compare it with the plan without them."""
        if self._remembered and any(
            len(self._state.models[name].copies) > 1 for name in self._remembered
        ):
            snapshot = self.snapshot
            self._state.dissolve()
            self._state = decided(snapshot)
        else:
            decide(self._state)

    def _carry_out(self) -> bool:
        """Record the decisions. Returns whether a queue started every job it showed."""
        state = self._state
        self._spent = spent(state)
        for start in state.starts:
            state.backends[start.backend].alone = False
            queue = self.queues[start.job.model, start.job.lane]
            self._note_start(queue, start.backend, self.now)
        for load in state.loads:
            copy = state.copies[load.model, load.backend]
            heappush(self._events, (copy.view.ready_at, _LOADED, load.model, load.backend))
        for evict in (*state.evictions, *(each for load in state.loads for each in load.evict)):
            state.models[evict.model].left_at = state.now
        return any(
            lane.left > 0 and lane.taken >= len(lane.heads)
            for name in {start.job.model for start in state.starts}
            for lane in state.models[name].lanes
            if lane.taken
        )

    def _pass_time(self) -> None:
        """Advance the time until a decision is needed.

        A copy that continues with the next job of its queue needs no decision. Most events of a
        long queue are of this kind. Asking the planner each time would cost ten times as much.
        """
        look_at = inf if self._state.look_at is None else self._state.look_at
        events, now = self._events, self.now
        obvious = True
        while obvious and self._starts_left > 0:
            now = max(now, min(look_at, events[0][0] if events else inf))
            if now == inf:
                self.over = True
                return
            obvious = now < look_at
            while events and events[0][0] <= now:
                _, what, model, backend = heappop(events)
                copy = self._apply_event(what, model, backend)
                goes_on = what == _ENDED and copy is not None and self._continue_queue(now, copy)
                obvious = obvious and goes_on
                if not goes_on and model in self._queues_of:
                    self._moved.add(model)
        self.now = now
        self._show()

    def _continue_queue(self, now: float, copy: CopyState) -> bool:
        """Start the next job of a queue on a copy that just finished one, if that is obvious."""
        model = copy.model.view.name
        queues = [queue for queue in self._queues_of.get(model, ()) if queue.left > 0]
        if not queues or not self._takes_next(copy):
            return False
        for queue in queues:
            if not self._may_start(now, copy, queue):
                return False
        copy.begin()
        self._note_start(queues[self._next_lane(model, queues)], copy.backend.view.name, now)
        return True

    def _takes_next(self, copy: CopyState) -> bool:
        """Whether nothing but a cutoff can keep a copy from the next job of its queue."""
        if copy.model.view.name in self._pausing or self._state.giving_way:
            return False
        backend = copy.backend
        return backend.usable and not (backend.view.serial and len(backend.copies) > 1)

    def _may_start(self, now: float, copy: CopyState, queue: SimulatedQueue) -> bool:
        """Whether the next job of a queue may start on a copy with a free slot."""
        if copy.cutoff is None and queue.next_head is None and not self._state.quiet:
            return True  # the common case in a long queue: nothing can prevent the start
        job = queue.job(len(queue.starts))
        if job.suspect or (copy.cutoff is not None and not copy.cutoff.admits(job, now)):
            return False
        return has_time(self._state, copy, job, now)

    def _next_lane(self, model: str, queues: Sequence[SimulatedQueue]) -> int:
        """Return the queue whose turn it is, and charge its lane."""
        if len(self._queues_of[model]) < 2:
            return 0
        names = [queue.view.lane for queue in queues]
        before = levelled(model, names, self._spent) if len(names) > 1 else {}
        for queue in self._queues_of[model]:
            self._spent.pop((model, queue.view.lane), None)
        if not before:
            return 0
        costs = [cost(lane, self._origin.rules.lane_weights) for lane in names]
        picked = min(range(len(names)), key=lambda i: before[names[i]] + costs[i] // 2)
        before[names[picked]] += costs[picked]
        self._spent.update({(model, lane): spent for lane, spent in before.items()})
        return picked

    def _apply_event(self, what: int, model: str, backend: str) -> CopyState | None:
        """Apply an event to the fleet state. Returns its copy, None if it was unloaded."""
        copy = self._state.copies.get((model, backend))
        if copy is not None:
            if what == _LEFT:
                self._state.leave(copy)
            elif what == _LOADED:
                copy.arrive()
            else:
                copy.end()
        return copy

    # ------------------------------------------------------------ what begins

    def _note_start(self, queue: SimulatedQueue, backend: str, now: float) -> None:
        """Record that the next job of a queue has started."""
        head, name = queue.next_head, queue.model
        seconds = (
            self._state.models[name].service_s(backend)
            if head is None
            else self._service(head, backend).mean_s
        )
        queue.start(Started(now, backend))
        heappush(self._events, (now + seconds, _ENDED, name, backend))
        self._started, self._starts_left = self._started + 1, self._starts_left - 1
        self._moved.add(name)

    # ------------------------------------------------------------ the state of the next decision

    def _show(self) -> None:
        """Prepare the fleet state for the decision at the simulated time."""
        for name in self._moved | self._pausing:
            self._show_lines(self._state.models[name], self.now)
        self._moved.clear()
        self._state.again(self.now)

    def _show_lines(self, model: ModelState, now: float) -> None:
        waiting = []
        slots = sum([model.view.parallel - copy.running for copy in model.copies])
        for queue in self._queues_of[model.view.name]:
            view = queue.waiting(now, slots)
            if view is not None:
                waiting.append(view)
        weights = self._origin.rules.lane_weights
        model.lanes = lanes_of(model.view, waiting, self._spent, weights)
        model.note_lanes()


def _key(copy: Copy) -> tuple[str, str]:
    return copy.model, copy.backend


def _ends(copy: Copy, model: ModelState, now: float) -> list[float]:
    """Return when the running jobs of a copy will end; overdue ones end soon."""
    usual_s = model.service_s(copy.backend)
    known = list(copy.ends_at[: copy.running])
    known += [now + usual_s / 2] * (copy.running - len(known))
    return [max(ends_at, now + OVERDUE_SHARE * usual_s) for ends_at in known]
