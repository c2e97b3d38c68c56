"""Rule R1: which jobs of ready models start, on which copy, and from which lane.

It starts the oldest head first. It never loads, evicts or reserves anything.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from queueing.core.jobs import Job
from queueing.planning.fleet_state import FleetState, has_time
from queueing.planning.lanes import LaneState
from queueing.planning.states import CopyState, ModelState


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
