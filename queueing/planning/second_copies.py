"""Second copies: several copies of one model on one host, each on a server of its own.

Which of them goes first when another model needs the memory, and how it is emptied for that model.
Loads and evicts nothing.
"""

from math import inf

from queueing.core.snapshot import Residency
from queueing.planning.eviction import candidates, is_awaited, make_room, may_leave_now, surplus
from queueing.planning.fleet_state import Board
from queueing.planning.states import BackendState, CopyState, Gate, ModelState
from queueing.planning.time_left import has_time_to_load


def give_way(board: Board) -> None:
    """Let surplus copies start nothing more where they would keep another model waiting.

    One on a server that does one thing at a time leaves it to the other models there. A model that
    waits for memory or a server waits for a running job to end, not for its age limit: without the
    further copy it would have been loaded at once. One for which there is space now needs none of it.
    """
    if not board.doubles or not any(map(surplus, board.hosts.values())):
        return
    for backend in board.backends.values():
        if backend.view.serial and len(backend.copies) > 1:
            _leave_to_others(board, backend)
    given: set[BackendState] = set()  # the servers that one model has been given already
    waiting = [(model.oldest_at, model) for model in board.waiting if model.oldest_at is not None]
    for _, model in sorted(waiting, key=lambda found: (found[0], found[1].order)):
        if is_homeless(board, model) and not any(
            _has_place(board, model, each) for each in candidates(board, model)
        ):
            _empty_for(board, model, given)


def _leave_to_others(board: Board, backend: BackendState) -> None:
    for copy in surplus(backend.host, backend):
        others = [other for other in backend.copies if other.gate is None and other is not copy]
        if copy.backend is backend and others:
            _close(board, others[0].model, [copy])


def is_homeless(board: Board, model: ModelState) -> bool:
    """Return whether a model waits, may be loaded and has no copy that serves or will."""
    if model.oldest_at is None or model.view.paused or model.view.load_after > board.now:
        return False
    return not (model.copies and model.served)


def _has_place(board: Board, model: ModelState, backend: BackendState) -> bool:
    """Return whether a model could be loaded as things are, but for the loader."""
    if backend.occupied or (backend.view.serial and _goes_on(board, model, backend)):
        return False
    return make_room(model, backend, may_leave_now(board, model)) is not None


def _goes_on(board: Board, model: ModelState, backend: BackendState) -> bool:
    """Whether jobs wait for a copy of another model on a server."""
    return any(
        copy.model is not model and copy.gate is None and is_awaited(board, copy)
        for copy in backend.copies
    )


def _empty_for(board: Board, model: ModelState, given: set[BackendState]) -> None:
    """Close the surplus copies whose memory or server the model would have."""
    idle = may_leave_now(board, model)
    for backend in sorted(candidates(board, model), key=_rests_at):
        hosts = model.hosts_at(backend)
        if backend in given or any(host.reservation is not None for host in hosts):
            continue
        found = [copy for host in hosts for copy in surplus(host, backend)]
        extra = [copy for copy in found if _is_open(board, copy)]
        leaving = {*extra, *(copy for host in hosts for copy in filter(idle, host.copies))}
        room = make_room(model, backend, leaving.__contains__)
        if room is None or not has_time_to_load(board, model, backend):
            continue
        if backend.view.serial and not all(c in extra for c in backend.copies if _moves(c)):
            continue
        closing = {*room.victims, *(backend.copies if backend.view.serial else ())}
        if _close(board, model, [copy for copy in extra if copy in closing]):
            given.add(backend)
            return


def _rests_at(backend: BackendState) -> float:
    """Return when a server will have ended what it runs, as far as that is known."""
    running = [copy for copy in backend.copies if copy.running]
    return max((max(copy.view.ends_at, default=inf) for copy in running), default=0.0)


def _moves(copy: CopyState) -> bool:
    return copy.running > 0 or copy.residency is not Residency.READY


def _close(board: Board, model: ModelState, extra: list[CopyState]) -> bool:
    """Close those copies to all jobs whose model has another open one there; return whether any."""
    closed = False
    for copy in extra:
        if copy.model is not model and _is_open(board, copy) and _has_another(copy):
            copy.gate = Gate(model.view.name, -inf, -inf)
            board.giving_way.append(copy)
            for host in copy.hosts:
                host.spare_mb = None
            board.openings = None
            closed = True
    return closed


def _is_open(board: Board, copy: CopyState) -> bool:
    """Whether no reservation has closed a copy."""
    return copy.gate is None or copy in board.giving_way


def _has_another(copy: CopyState) -> bool:
    """Whether an open copy of the model is left on the host."""
    return any(
        other is not copy
        and other.gate is None
        and not set(other.hosts).isdisjoint(copy.hosts)
        and other.residency is not Residency.UNLOADING
        for other in copy.model.copies
    )
