"""The scheduling decision: what starts, what is loaded or evicted, and why the rest waits.

`plan()` is a pure function of a `Snapshot`. Nothing in this package does I/O, waits, logs or reads
a clock. `docs/decisions/0003-scheduling.md` explains the rules R1 to R5 and their numbers,
`docs/decisions/0031-predictive-loading.md` rule R6.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf

from queueing.core.jobs import Job
from queueing.core.snapshot import EvictionCause, Plan, Reason, Snapshot
from queueing.planning import ahead, placement, replicas, reservations
from queueing.planning.eviction import is_awaited, is_idle
from queueing.planning.fleet_state import FleetState, has_time
from queueing.planning.hosts import rests, wakes
from queueing.planning.lanes import LaneState
from queueing.planning.reasons import explain, why_not_loaded
from queueing.planning.states import BackendState, CopyState, ModelState

SOON = 0.1  # requests expected during a load; with this many, a copy will be missed soon
LONGEST = 2.0  # how many idle limits a copy stays if it will be missed soon


def plan(snapshot: Snapshot) -> Plan:
    """Decide what happens now.

    The result is stable: planning again from a snapshot in which the plan has been carried out
    changes nothing. The steps are numbered as in `decide`:

    0.  Unload idle copies on resting hosts. These hosts get no work (`usable`).
    0a. Renew the last plan's reservations that still hold, and their cutoffs (R4).
    0b. A surplus copy on a host starts nothing more while a model waits for its memory.
    1.  A head starts if its model has a ready, free copy and no cutoff excludes the job (R1).
        1a. Of several such copies, a conversation continues at the one that remembers it, provided
            the rest of the plan is the same without this. Otherwise the job goes where fewest jobs
            run.
    2.  A host whose budget shrank unloads idle copies.
    3.  A model that waits and has no copy ready or loading gets one load (R2).
        3a. It goes where the loader is free and eviction costs least (R3).
        3b. If it has no place and is overdue, a host is reserved and its victims get cutoffs. Those
            overdue longest go first (R4), as even a model just evicted may have the oldest head.
    4.  A backlog large enough loads a further copy (R5): on another host, or in free memory of a
        host that already has one, if the model may have several there.
    5.  A copy that has reached its idle limit is unloaded.
    6.  An idle host that may do so loads the model that is probably requested next (R6). A forecast
        has no such loads, because nobody waits for them.

    Then every model that still waits gets its reason.
    """
    state = decided(snapshot)
    reasons = explain(state)
    ahead.load_ahead(state)  # 6
    return _plan_of(state, reasons)


def preload_waits_for(snapshot: Snapshot, model: str) -> Reason | None:
    """Return what prevents loading a model for an admin; None if its load begins."""
    state = decided(snapshot)
    begins = any(load.model == model for load in state.loads)
    reason = None if begins else why_not_loaded(state, state.models[model])
    state.dissolve()
    return reason


def decided(snapshot: Snapshot) -> FleetState:
    """Return the fleet state after every decision; a forecast continues from it."""
    state = _decided_with(snapshot, conversations=True)
    if state.called_back:  # 1a
        plain = _decided_with(snapshot, conversations=False)
        if _moves(state) != _moves(plain):
            state.dissolve()
            return plain
        plain.dissolve()
    return state


def _decided_with(snapshot: Snapshot, *, conversations: bool) -> FleetState:
    state = FleetState(snapshot, conversations=conversations)
    decide(state)
    return state


def decide(state: FleetState) -> None:
    """Make every decision on a fleet state.

    With its `conversations`, these return to the copies that remember them.
    """
    _clear_resting_hosts(state)  # 0
    if state.rules.gate:
        reservations.renew(state)  # 0a
    replicas.give_way(state)  # 0b
    dispatch(state)  # 1
    placement.relieve(state)  # 2
    homeless = placement.place_all(state)  # 3, 3a
    placement.reserve_for_overdue(state, homeless)  # 3b
    if state.rules.replicate:
        replicas.replicate(state)  # 4
    _unload_idle(state)  # 5


def _moves(state: FleetState) -> tuple[object, ...]:
    """Return all decisions except where jobs start."""
    return [start.job for start in state.starts], state.loads, state.evictions, state.kept()


def _plan_of(state: FleetState, reasons: Mapping[str, Reason]) -> Plan:
    answer = Plan(
        starts=tuple(state.starts),
        loads=tuple(state.loads),
        evictions=tuple(state.evictions),
        reasons=reasons,
        reservations=state.kept(),
        lane_spent=spent(state),
        look_at=state.look_at,
    )
    state.dissolve()
    return answer


# ---------------------------------------------------------------- copies that leave


def _clear_resting_hosts(state: FleetState) -> None:
    """Unload every idle copy of resting hosts, pinned ones included."""
    for host in state.lent:
        if not rests(host.view, state.now) or wakes(host.view, state.now):
            continue
        why = EvictionCause.QUIET if host.view.yields_since is None else EvictionCause.OTHERS
        for backend in host.backends:
            if backend.view.can_unload:
                state.evict(_idle(backend), why)


def _idle(backend: BackendState) -> list[CopyState]:
    weighing = [copy for copy in backend.copies if copy.view.vram_mb]
    idle = [copy for copy in weighing if is_idle(copy)]
    together = backend.view.unloads_together and len(idle) < len(weighing)
    return [] if together else idle


def _unload_idle(state: FleetState) -> None:
    """Unload the copies that have reached their idle limit and will not be missed soon.

    A copy that will be missed soon, by its arrival rate and load time, stays up to twice as long.
    Pinned copies stay, as do copies that can only be unloaded together with one that stays.
    """
    for copy in list(state.copies.values()):
        if copy.idle_at < inf and copy in copy.backend.copies and _is_due(state, copy):
            together = _leaving_with(copy)
            if all(_is_due(state, other) for other in together):
                state.evict(together, EvictionCause.IDLE)


def _leaving_with(copy: CopyState) -> tuple[CopyState, ...]:
    backend: BackendState = copy.backend
    if not backend.view.unloads_together:
        return (copy,)
    return tuple(other for other in backend.copies if other.view.vram_mb)


def _is_due(state: FleetState, copy: CopyState) -> bool:
    """Whether a copy should be unloaded now. If only later, request a decision at that time."""
    view = copy.view
    if view.pinned or not view.vram_mb or not copy.backend.view.can_unload:
        return False
    if not is_idle(copy) or copy.idle_at == inf or is_awaited(state, copy):
        return False
    last_at = view.idle_since + LONGEST * view.idle_unload_s
    soon = copy.model.view.rate_per_s * copy.model.load_s(view.backend) >= SOON
    leaves_at = last_at if soon else copy.idle_at
    if leaves_at > state.now:
        state.look(leaves_at)
        return False
    return True


# ---------------------------------------------------------------- what starts (R1)


def dispatch(state: FleetState) -> None:
    """Start every head that has a ready, free copy and is allowed by its cutoff, oldest first."""
    order = [
        (oldest, model.order, model)
        for model in state.waiting
        if model.copies and (oldest := model.oldest_at) is not None and model.has_slot
    ]
    heapify(order)
    while order:
        _, index, model = heappop(order)
        if _start_next(state, model):
            oldest = model.oldest_at
            if oldest is not None:
                heappush(order, (oldest, index, model))


def _start_next(state: FleetState, model: ModelState) -> bool:
    """Start the model's next job if possible. Returns whether it started."""
    free = [copy for copy in model.copies if copy.free]
    lane = _next_lane(state, model, free) if free else None
    if lane is None or lane.head is None:
        return False
    job = lane.head
    copies = [copy for copy in free if _admits(state, copy, job)]
    if job.suspect:
        # A suspect may have killed its server, so it runs with nothing else on it. The least busy
        # backend starts nothing younger until it is empty; otherwise the suspect would never start.
        empty = [copy for copy in copies if copy.backend.busy == 0]
        if not empty:
            min(copies, key=lambda copy: copy.backend.busy).backend.waits_for = model.view.name
            return False
        copies = empty
    state.start(job, _place(state, job, copies))
    lane.spent += lane.cost
    lane.taken += 1
    model.waiting -= 1
    model.note_oldest()
    return True


def _place(state: FleetState, job: Job, copies: Sequence[CopyState]) -> CopyState:
    """Return the free copy a job starts on.

    A conversation returns to the copy that remembers it. It does not if that host is reserved, or
    if other servers run more jobs there than on the preferred host.
    """
    best = min(copies, key=_preference)
    if not state.conversations or job.remembered_by in {None, best.backend.view.name}:
        return best
    for copy in copies:
        if copy.backend.view.name == job.remembered_by:
            reserved = any(host.reservation is not None for host in copy.hosts)
            if reserved or _jobs_of_other_servers(copy) > _jobs_of_other_servers(best):
                return best
            state.called_back = True
            return copy
    return best


def _jobs_of_other_servers(copy: CopyState) -> int:
    """Return how many jobs other servers run on the copy's host, or on the busiest of its GPUs."""
    own = sum(other.running for other in copy.backend.copies)
    return max(0, *[host.running - own for host in copy.hosts])


def _preference(copy: CopyState) -> tuple[bool, int, int]:
    """Order copies: hosts without a reservation first, then the fewest running jobs."""
    if copy.on is None:
        host = copy.hosts[0]
        return host.reservation is not None, host.running, copy.backend.order
    reserved = any(host.reservation is not None for host in copy.hosts)
    return reserved, max([host.running for host in copy.hosts]), copy.backend.order


def _admits(state: FleetState, copy: CopyState, job: Job) -> bool:
    return (copy.cutoff is None or copy.cutoff.admits(job, state.now)) and has_time(
        state, copy, job
    )


def _next_lane(state: FleetState, model: ModelState, free: Sequence[CopyState]) -> LaneState | None:
    """Return the lane whose turn it is, among those that may start a job.

    Its next job may be unknown because it comes after the heads in the snapshot. Then no job of
    another lane starts before the next snapshot.
    """
    lanes = [lane for lane in model.lanes if lane.competes and _may_start(state, lane, free)]
    if len(lanes) < 2:
        return lanes[0] if lanes else None
    return min(lanes, key=lambda lane: lane.due)  # on a tie, the most favoured


def _may_start(state: FleetState, lane: LaneState, free: Sequence[CopyState]) -> bool:
    head = lane.head
    return head is None or any(_admits(state, copy, head) for copy in free)


def spent(state: FleetState) -> dict[tuple[str, str], int]:
    """Return how much of their shares competing lanes have spent, by model and lane."""
    kept = {}
    for model in state.waiting:
        if len(model.lanes) > 1:
            lanes = [lane for lane in model.lanes if lane.competes]
            if len(lanes) > 1:
                kept.update({(model.view.name, lane.view.lane): lane.spent for lane in lanes})
    return kept
