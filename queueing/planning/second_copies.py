"""Second copies: several copies of one model on one host, each on a server of its own.

Which of them goes first when another model needs the memory, and how it is emptied for that model.
Loads and evicts nothing.
"""

from math import inf

from queueing.core.world import Residency
from queueing.planning.board import Board
from queueing.planning.board_states import BackendState, CopyState, Gate, ModelState
from queueing.planning.space import candidates, make_room, may_leave_now, surplus
from queueing.planning.time_left import has_time_to_load


def give_way(board: Board) -> None:
    """Let surplus copies start nothing more where a model waits that would have their memory.

    That model waits for their running jobs to end, not for its age limit: without the further copy
    it would have been loaded at once. One for which there is space now needs none of it.
    """
    if not any(map(surplus, board.hosts.values())):
        return
    wanted = [model for model in board.waiting if is_homeless(board, model)]
    wanted.sort(key=lambda model: (model.oldest_at, model.order))
    for model in wanted:
        if not any(_room_now(board, model, backend) for backend in candidates(board, model)):
            _empty_for(board, model)


def is_homeless(board: Board, model: ModelState) -> bool:
    """Return whether a model waits, may be loaded and has no copy that serves or will."""
    if model.oldest_at is None or model.view.paused or model.view.load_after > board.now:
        return False
    return not (model.copies and model.served)


def _room_now(board: Board, model: ModelState, backend: BackendState) -> bool:
    return make_room(model, backend, may_leave_now(board, model)) is not None


def _empty_for(board: Board, model: ModelState) -> None:
    """Close the surplus copies of one host whose memory the model would have."""
    idle = may_leave_now(board, model)
    for backend in candidates(board, model):
        hosts = [host for host, _ in model.needs(backend)]
        if any(host.reservation is not None for host in hosts):
            continue
        if not has_time_to_load(board, model, backend):
            continue
        extra = [copy for host in hosts for copy in surplus(host) if copy.gate is None]
        leaving = {*extra, *(copy for host in hosts for copy in filter(idle, host.copies))}
        room = make_room(model, backend, leaving.__contains__)
        if room is None or not _comes_to_rest(backend, extra):
            continue
        for copy in room.victims:
            if copy in extra:
                copy.gate = Gate(model.view.name, -inf, -inf)
                board.giving_way.append(copy)
        for host in hosts:
            host.spare_mb = None
        board.openings = None
        return


def _comes_to_rest(backend: BackendState, extra: list[CopyState]) -> bool:
    """Whether a backend can load once these copies have ended their jobs."""
    if not backend.occupied:
        return True
    return not backend.alone and all(
        copy in extra for copy in backend.copies if copy.running or _moves(copy)
    )


def _moves(copy: CopyState) -> bool:
    return copy.residency is not Residency.READY
