"""Rule R5: a further copy of a model whose backlog is worth more than the load costs others.

Evicts only copies no job waits for, and never reserves. On a host that has a copy already it takes
free memory only.
"""

from collections.abc import Sequence
from math import exp
from operator import itemgetter

from queueing.core.snapshot import Residency
from queueing.planning.eviction import (
    OTHER_COPY_SHARE,
    candidates,
    is_awaited,
    is_idle,
    make_room,
    may_be_placed,
    openings,
    places_for,
)
from queueing.planning.fleet_state import Board
from queueing.planning.second_copies import is_homeless
from queueing.planning.states import BackendState, CopyState, HostState, ModelState, Space

AWAY_SHARE = 0.45  # of the time a further copy is useful, during which what it evicts cannot return
EARLY_LINE = 4  # jobs per slot: a model that is not ready anywhere yet has its one load for fewer


def replicate(board: Board) -> None:
    """Load further copies of backlogged models, the largest backlog first."""
    if not openings(board):
        return
    backlogged = [
        model
        for model in board.waiting
        if model.copies
        and model.oldest_at is not None
        and model.served
        and model.view.load_after <= board.now
    ]
    if not may_be_placed(board, backlogged):
        return  # the usual case in a crowd: then their order changes nothing
    for model in sorted(backlogged, key=lambda model: (-model.waiting, model.order)):
        while _add_copy(board, model):
            pass


def _add_copy(board: Board, model: ModelState) -> bool:
    """Load one further copy where that pays best; return whether one pays."""
    best: Space | None = None
    best_net = 0.0
    places = places_for(board, model)
    if not places:
        return False
    there = {host for copy in model.copies for host in copy.hosts}
    targets = [
        (not there.isdisjoint(hosts := model.hosts_at(backend)), backend, hosts)
        for backend in candidates(board, model)
        if backend in places
    ]
    for beside, backend, hosts in sorted(targets, key=itemgetter(0)):
        if beside and not _may_have_another(board, model, backend, hosts):
            continue
        gain, drain_s = _gain(model, backend)
        if gain <= best_net:
            continue  # it would not pay better, whatever it costs others
        room = make_room(model, backend, lambda copy: is_idle(copy) and not is_awaited(board, copy))
        if room is None or (room.victims and beside):
            continue
        net = gain - board.rules.replicate_ratio * _loss(board, model, room, drain_s)
        if net > best_net:
            best, best_net = room, net
    if best is None:
        return False
    board.load(model, best.backend, best.victims)
    return True


def _may_have_another(
    board: Board, model: ModelState, backend: BackendState, hosts: Sequence[HostState]
) -> bool:
    """Return whether hosts may hold one more copy of a model, beside the one any of them has.

    Not on a server that does one thing at a time and has other models, and not while others wait for
    memory there: they come first.
    """
    there = max(sum(host in copy.hosts for copy in model.copies) for host in hosts)
    if not board.rules.double or there >= model.view.copies:
        return False
    if backend.view.serial and backend.copies:
        return False
    return not any(
        is_homeless(board, other)
        and any(host in hosts for each in candidates(board, other) for host, _ in other.needs(each))
        for other in board.waiting
        if other is not model
    )


def _gain(model: ModelState, backend: BackendState) -> tuple[float, float]:
    """Return the total waiting a further copy saves (job seconds), and how long it is useful.

    `left` jobs will still wait when the load ends. Served by k slots they wait left²·s/2k in total,
    by k + p slots left²·s/2(k + p); the difference is the gain.
    """
    name = backend.view.name
    serving = [copy for copy in model.copies if copy.serves]
    slots = model.view.parallel * len(serving)
    ready = any(copy.residency is Residency.READY for copy in serving)
    if not ready and model.waiting <= EARLY_LINE * slots:
        return 0.0, 0.0  # two first requests at once must not load two copies
    more = model.view.parallel
    service_s, load_s = model.service_s(name), model.load_s(name)
    if service_s <= 0:
        return 0.0, 0.0  # learned while the clock was set back; no line is long then
    left = model.waiting - slots * load_s / service_s + model.view.rate_per_s * load_s
    if left <= 0:
        return 0.0, 0.0
    gain = left * left * service_s * more / (2 * slots * (slots + more))
    return gain, load_s + left * service_s / (slots + more)


def _loss(board: Board, model: ModelState, room: Space, drain_s: float) -> float:
    """Return the waiting a further copy costs others (job seconds), within the time it is useful."""
    load_s = model.load_s(room.backend.view.name)
    reloads = 0.0
    for copy in room.victims:
        victim, victim_load_s = copy.model, copy.model.load_s(copy.view.backend)
        needed = 1 - exp(-victim.view.rate_per_s * drain_s)
        waits = needed * victim_load_s * (1 + victim.view.rate_per_s * victim_load_s / 2)
        if any(other is not copy and other.serves for other in victim.copies):
            waits *= OTHER_COPY_SHARE
        elif not _could_return(board, copy, model, room):
            waits += victim.view.rate_per_s * (AWAY_SHARE * drain_s) ** 2 / 2
        reloads += waits
    return reloads + _delayed(board, model, room) * load_s * load_s / 2


def _could_return(board: Board, victim: CopyState, model: ModelState, room: Space) -> bool:
    """Return whether a victim could be loaded again beside the further copy, or on another host.

    Checked if servers share the card. Under one server victims return sooner than such a check
    shows: bursts there waited 1 to 2 % longer with it.
    """
    if all(len(host.backends) == 1 for host in room.hosts):
        return True
    return any(
        all(mb <= _left_mb(board, host, model, room) for host, mb in victim.model.needs(backend))
        for backend in candidates(board, victim.model)
    )


def _left_mb(board: Board, host: HostState, model: ModelState, room: Space) -> int:
    """Return a host's free memory with the further copy, counting copies no job needs as free."""
    free_mb = host.view.usable_mb - host.used_mb
    for copy in host.copies:
        needless = is_idle(copy) and not copy.view.pinned and not is_awaited(board, copy)
        if needless or copy in room.victims:
            free_mb += copy.mb_on(host)
    coming = [mb for there, mb in model.needs(room.backend) if there is host]
    return free_mb - sum(coming)


def _delayed(board: Board, model: ModelState, room: Space) -> float:
    """Return the arrivals per second that would have to wait for this load to end.

    They need the host's one loader or, if the backend is serial, are held up in its memory.
    """
    backend = room.backend
    names = {other.view.name for host in room.hosts for other in host.backends}
    return sum(
        other.view.rate_per_s
        for other in board.models.values()
        if other is not model
        and (
            backend.view.serial and any(copy.backend is backend for copy in other.copies)
            if other.served
            else names.intersection(other.view.backends)
        )
    )
