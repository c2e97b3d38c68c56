"""The time left before a host's quiet hours: what would not end before them is not begun there.

Answers questions about a board and changes nothing.
"""

from math import inf

from queueing.core.jobs import Job
from queueing.planning.fleet_state import Board
from queueing.planning.states import BackendState, CopyState, HostState, ModelState

HALF, QUARTER = 0.5, 0.25


def has_time(board: Board, copy: CopyState, job: Job, now: float | None = None) -> bool:
    """Return whether a job of a ready copy, begun now, would end before the host's quiet hours."""
    host = _soonest(copy.backend) if copy.backend.view.hosts else copy.backend.host
    if host.closes_at == inf:
        return True
    backend = copy.backend.view.name
    needed_s = board.job_s.get((job.id, backend), copy.model.service_s(backend))
    at = board.now if now is None else now
    return _fits(at, host, needed_s, _whole_s(copy.model, backend), QUARTER)


def has_time_to_load(board: Board, model: ModelState, backend: BackendState) -> bool:
    """Return whether a load, and then a usual job, would end before the host's quiet hours."""
    host = _soonest(backend) if backend.view.hosts else backend.host
    if host.closes_at == inf:
        return True
    whole_s = _whole_s(model, backend.view.name)
    return _fits(board.now, host, whole_s, whole_s, HALF)


def _soonest(backend: BackendState) -> HostState:
    """Return which of the backend's hosts closes first."""
    return min(backend.hosts, key=lambda host: host.closes_at)


def _whole_s(model: ModelState, backend: str) -> float:
    return model.load_s(backend) + model.service_s(backend)


def _fits(now: float, host: HostState, needed_s: float, whole_s: float, share: float) -> bool:
    """Whether the time suffices; for a job longer than the host is ever open, a share of that does.

    It would wait for ever otherwise: it runs into the quiet hours, and is begun long before them.
    """
    left_s, longest_s = host.closes_at - now, host.view.longest_open_s
    return needed_s <= left_s or (whole_s > longest_s and left_s >= share * longest_s)
