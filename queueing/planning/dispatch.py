"""Rule R1: start the jobs whose model is ready, oldest head first; and which lane comes next.

Never loads, evicts or reserves anything.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from queueing.jobs import Job
from queueing.planning.board import Board, CopyState, ModelState
from queueing.planning.lanes import LaneState


def dispatch(board: Board) -> None:
    """Start every head that has a ready, free copy no gate closes, over models by oldest head."""
    order = [
        (oldest, model.order, model)
        for model in board.models.values()
        if model.lanes and model.copies and (oldest := model.oldest_at) is not None
    ]
    heapify(order)
    while order:
        _, index, model = heappop(order)
        if _start_next(board, model):
            oldest = model.oldest_at
            if oldest is not None:
                heappush(order, (oldest, index, model))


def _start_next(board: Board, model: ModelState) -> bool:
    """Start the model's next job if anything lets it; tell whether it did."""
    free = [copy for copy in model.copies if copy.free]
    lane = _next_lane(board, model, free) if free else None
    if lane is None or lane.head is None:
        return False
    job = lane.head
    copies = [copy for copy in free if _admits(board, copy, job)]
    if job.suspect:
        # It may have killed its server: it runs with nothing beside it. The least busy backend
        # starts nothing younger until it is empty, or the suspect would wait for ever.
        empty = [copy for copy in copies if copy.backend.busy == 0]
        if not empty:
            min(copies, key=lambda copy: copy.backend.busy).backend.waits_for = model.view.name
            return False
        copies = empty
    board.start(job, min(copies, key=_preference))
    _turn(board, model, lane)
    lane.taken += 1
    model.note_oldest()
    return True


def _preference(copy: CopyState) -> tuple[bool, int, int]:
    """Order copies: hosts without a reservation first, then the fewest running jobs."""
    host = copy.backend.host
    return host.reservation is not None, host.running, copy.backend.order


def _admits(board: Board, copy: CopyState, job: Job) -> bool:
    return copy.gate is None or copy.gate.admits(job, board.now)


def _next_lane(board: Board, model: ModelState, free: Sequence[CopyState]) -> LaneState | None:
    """Pick the lane whose head is next: smooth weighted round robin over the lanes that can."""
    lanes = [
        lane
        for lane in model.lanes
        if lane.head is not None and any(_admits(board, copy, lane.head) for copy in free)
    ]
    if len(lanes) < 2:
        return lanes[0] if lanes else None
    return max(lanes, key=lambda lane: _credit(board, model, lane) + _weight(board, lane))


def _turn(board: Board, model: ModelState, picked: LaneState) -> None:
    """Book a lane's turn: every waiting lane earns its weight, the picked one pays them all."""
    waiting = [lane for lane in model.lanes if lane.head is not None]
    if len(waiting) < 2:
        return
    for lane in waiting:
        board.lane_credit[model.view.name, lane.view.lane] = _credit(board, model, lane) + _weight(
            board, lane
        )
    total = sum(_weight(board, lane) for lane in waiting)
    board.lane_credit[model.view.name, picked.view.lane] -= total


def _credit(board: Board, model: ModelState, lane: LaneState) -> float:
    return board.lane_credit.get((model.view.name, lane.view.lane), 0.0)


def _weight(board: Board, lane: LaneState) -> int:
    return board.rules.lane_weights.get(lane.view.lane, 1)


def remaining_credit(board: Board) -> dict[tuple[str, str], float]:
    """Return the credit worth keeping: of models in which several lanes still wait."""
    kept = {}
    for (name, lane), credit in board.lane_credit.items():
        model = board.models.get(name)
        waiting = [s.view.lane for s in model.lanes if s.left > 0] if model is not None else []
        if len(waiting) > 1 and lane in waiting:
            kept[name, lane] = credit
    return kept
