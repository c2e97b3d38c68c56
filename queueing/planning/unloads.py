"""Idle copies that leave although no other model needs their room.

Those not used for as long as the operator wants, and those of a host that rests. Never loads or starts
anything; how long a copy may be idle comes with it.
"""

from math import inf

from queueing.core.snapshot import EvictionCause
from queueing.planning.eviction import is_awaited, is_idle
from queueing.planning.fleet_state import FleetState
from queueing.planning.hosts import rests, wakes
from queueing.planning.states import BackendState, CopyState

SOON = 0.1  # requests expected within the time of a load: from here on a copy will be missed soon
LONGEST = 2.0  # as many times as long stays one that will be missed soon


def clear(board: FleetState) -> None:
    """Unload every idle copy of the hosts that rest, pinned ones as well."""
    for host in board.lent:
        if not rests(host.view, board.now) or wakes(host.view, board.now):
            continue
        why = EvictionCause.QUIET if host.view.yields_since is None else EvictionCause.OTHERS
        for backend in host.backends:
            if backend.view.can_unload:
                board.evict(_idle(backend), why)


def _idle(backend: BackendState) -> list[CopyState]:
    weighing = [copy for copy in backend.copies if copy.view.vram_mb]
    idle = [copy for copy in weighing if is_idle(copy)]
    together = backend.view.unloads_together and len(idle) < len(weighing)
    return [] if together else idle


def unload(board: FleetState) -> None:
    """Unload the copies that were idle for long enough, and will not be missed soon.

    One that will be, as its arrival rate times its load time says, stays up to twice as long. Pinned
    copies stay, and so do those that leave only together with one that stays.
    """
    for copy in list(board.copies.values()):
        if copy.idle_at < inf and copy in copy.backend.copies and _is_due(board, copy):
            together = _leaving_with(copy)
            if all(_is_due(board, other) for other in together):
                board.evict(together, EvictionCause.IDLE)


def _leaving_with(copy: CopyState) -> tuple[CopyState, ...]:
    backend: BackendState = copy.backend
    if not backend.view.unloads_together:
        return (copy,)
    return tuple(other for other in backend.copies if other.view.vram_mb)


def _is_due(board: FleetState, copy: CopyState) -> bool:
    """Whether a copy should leave now; if it will later, that moment is looked at again."""
    view = copy.view
    if view.pinned or not view.vram_mb or not copy.backend.view.can_unload:
        return False
    if not is_idle(copy) or copy.idle_at == inf or is_awaited(board, copy):
        return False
    last_at = view.idle_since + LONGEST * view.idle_unload_s
    soon = copy.model.view.rate_per_s * copy.model.load_s(view.backend) >= SOON
    leaves_at = last_at if soon else copy.idle_at
    if leaves_at > board.now:
        board.look(leaves_at)
        return False
    return True
