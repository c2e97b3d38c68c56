"""Rule R5: further copies of a model: which ones pay, and how they give way.

It evicts only copies without waiting jobs, and never reserves. On a host that already has a copy, a
further one uses free memory only, and is the first to leave when another model needs the memory.
"""

from collections.abc import Sequence
from math import exp, inf
from operator import itemgetter

from queueing.core.snapshot import Residency
from queueing.planning.eviction import (
    OTHER_COPY_SHARE,
    candidates,
    is_awaited,
    is_idle,
    make_room,
    may_be_placed,
    may_leave_now,
    openings,
    places_for,
    surplus,
)
from queueing.planning.fleet_state import FleetState, has_time_to_load
from queueing.planning.states import (
    BackendState,
    CopyState,
    Cutoff,
    Eviction,
    HostState,
    ModelState,
)


def give_way(state: FleetState) -> None:
    """Stop surplus copies from starting jobs if they would keep another model waiting.

    Without the surplus copy, that model would have been loaded at once. It now waits only for a
    running job to end, not until its age limit. On a serial server, a surplus copy gives way to the
    other models that wait there. Models that have space now need nothing closed.
    """
    if not state.doubles or not any(map(surplus, state.hosts.values())):
        return
    for backend in state.backends.values():
        if backend.view.serial and len(backend.copies) > 1:
            _leave_to_others(state, backend)
    given: set[BackendState] = set()  # servers already emptied for a model
    waiting = [(model.oldest_at, model) for model in state.waiting if model.oldest_at is not None]
    for _, model in sorted(waiting, key=lambda found: (found[0], found[1].order)):
        if is_homeless(state, model) and not any(
            _has_place(state, model, each) for each in candidates(state, model)
        ):
            _empty_for(state, model, given)


def _leave_to_others(state: FleetState, backend: BackendState) -> None:
    for copy in surplus(backend.host, backend):
        awaited = [
            other.model
            for other in backend.copies
            if other.cutoff is None and other is not copy and is_awaited(state, other)
        ]
        if copy.backend is backend and awaited:
            _close(state, awaited[0], [copy])


def is_homeless(state: FleetState, model: ModelState) -> bool:
    """Return whether a model waits, may be loaded, and has no copy ready or on its way."""
    if model.oldest_at is None or model.view.paused or model.view.load_after > state.now:
        return False
    return not (model.copies and model.served)


def _has_place(state: FleetState, model: ModelState, backend: BackendState) -> bool:
    """Return whether a model could be loaded now, apart from the loader."""
    if backend.occupied or (backend.view.serial and _is_needed(state, model, backend)):
        return False
    return make_room(model, backend, may_leave_now(state, model)) is not None


def _is_needed(state: FleetState, model: ModelState, backend: BackendState) -> bool:
    """Whether a copy of another model on a server has waiting jobs."""
    return any(
        copy.model is not model and copy.cutoff is None and is_awaited(state, copy)
        for copy in backend.copies
    )


def _empty_for(state: FleetState, model: ModelState, given: set[BackendState]) -> None:
    """Close the surplus copies whose memory or server the model needs."""
    idle = may_leave_now(state, model)
    for backend in sorted(candidates(state, model), key=_free_at):
        hosts = model.hosts_at(backend)
        if backend in given or any(host.reservation is not None for host in hosts):
            continue
        found = [copy for host in hosts for copy in surplus(host, backend)]
        extra = [copy for copy in found if _is_open(state, copy)]
        leaving = {*extra, *(copy for host in hosts for copy in filter(idle, host.copies))}
        room = make_room(model, backend, leaving.__contains__)
        if room is None or not has_time_to_load(state, model, backend):
            continue
        if backend.view.serial and not all(c in extra for c in backend.copies if _is_busy(c)):
            continue
        closing = {*room.victims, *(backend.copies if backend.view.serial else ())}
        if _close(state, model, [copy for copy in extra if copy in closing]):
            given.add(backend)
            return


def _free_at(backend: BackendState) -> float:
    """Return when a server will have finished its running jobs, as far as is known."""
    running = [copy for copy in backend.copies if copy.running]
    return max((max(copy.view.ends_at, default=inf) for copy in running), default=0.0)


def _is_busy(copy: CopyState) -> bool:
    return copy.running > 0 or copy.residency is not Residency.READY


def _close(state: FleetState, model: ModelState, extra: list[CopyState]) -> bool:
    """Close those copies whose model has another open copy there.

    Returns whether any was closed.
    """
    closed = False
    for copy in extra:
        if copy.model is not model and _is_open(state, copy) and _has_another(copy):
            copy.cutoff = Cutoff(model.view.name, -inf, -inf)
            state.giving_way.append(copy)
            for host in copy.hosts:
                host.spare_mb = None
            state.openings = None
            closed = True
    return closed


def _is_open(state: FleetState, copy: CopyState) -> bool:
    """Whether no reservation has closed a copy."""
    return copy.cutoff is None or copy in state.giving_way


def _has_another(copy: CopyState) -> bool:
    """Whether the host has another open copy of the model, on a server that can take jobs."""
    return any(
        other is not copy
        and other.cutoff is None
        and not set(other.hosts).isdisjoint(copy.hosts)
        and other.serves
        for other in copy.model.copies
    )


AWAY_SHARE = 0.45  # share of a further copy's useful time in which its victims cannot return
EARLY_QUEUE = 4  # jobs per slot; with fewer, a model that is not ready yet gets no second load


def replicate(state: FleetState) -> None:
    """Load further copies of backlogged models, the largest backlog first."""
    if not openings(state):
        return
    backlogged = [
        model
        for model in state.waiting
        if model.copies
        and model.oldest_at is not None
        and model.served
        and model.view.load_after <= state.now
    ]
    if not may_be_placed(state, backlogged):
        return  # the common case under load; skips the sorting
    for model in sorted(backlogged, key=lambda model: (-model.waiting, model.order)):
        while _add_copy(state, model):
            pass


def _add_copy(state: FleetState, model: ModelState) -> bool:
    """Load one further copy where that pays most. Returns whether one pays."""
    best: Eviction | None = None
    best_net = 0.0
    places = places_for(state, model)
    if not places:
        return False
    there = {host for copy in model.copies for host in copy.hosts}
    targets = [
        (not there.isdisjoint(hosts := model.hosts_at(backend)), backend, hosts)
        for backend in candidates(state, model)
        if backend in places
    ]
    for beside, backend, hosts in sorted(targets, key=itemgetter(0)):
        if beside and not _may_have_another(state, model, backend, hosts):
            continue
        gain, drain_s = _gain(model, backend)
        if gain <= best_net:
            continue  # it cannot pay more, whatever it costs others
        room = make_room(model, backend, lambda copy: is_idle(copy) and not is_awaited(state, copy))
        if room is None or (room.victims and beside):
            continue
        net = gain - state.rules.replicate_ratio * _loss(state, model, room, drain_s)
        if net > best_net:
            best, best_net = room, net
    if best is None:
        return False
    state.load(model, best.backend, best.victims)
    return True


def _may_have_another(
    state: FleetState, model: ModelState, backend: BackendState, hosts: Sequence[HostState]
) -> bool:
    """Return whether hosts that may already have a copy of a model may hold one more.

    Not on a serial server that has other models, and not while other models wait for memory there.
    """
    there = max(sum(host in copy.hosts for copy in model.copies) for host in hosts)
    if not state.rules.double or there >= model.view.copies:
        return False
    if backend.view.serial and backend.copies:
        return False
    return not any(
        is_homeless(state, other)
        and any(host in hosts for each in candidates(state, other) for host, _ in other.needs(each))
        for other in state.waiting
        if other is not model
    )


def _gain(model: ModelState, backend: BackendState) -> tuple[float, float]:
    """Return the total waiting a further copy saves (job seconds), and for how long it is useful.

    `left` jobs still wait when the load ends. With k slots they wait left²·s/2k in total, with k +
    p slots left²·s/2(k + p). The difference is the gain.
    """
    name = backend.view.name
    serving = [copy for copy in model.copies if copy.serves]
    slots = model.view.parallel * len(serving)
    ready = any(copy.residency is Residency.READY for copy in serving)
    if not ready and model.waiting <= EARLY_QUEUE * slots:
        return 0.0, 0.0  # two simultaneous first requests must not load two copies
    more = model.view.parallel
    service_s, load_s = model.service_s(name), model.load_s(name)
    if service_s <= 0:
        return 0.0, 0.0  # learned while the clock was set back; no queue is long then
    left = model.waiting - slots * load_s / service_s + model.view.rate_per_s * load_s
    if left <= 0:
        return 0.0, 0.0
    gain = left * left * service_s * more / (2 * slots * (slots + more))
    return gain, load_s + left * service_s / (slots + more)


def _loss(state: FleetState, model: ModelState, room: Eviction, drain_s: float) -> float:
    """Return how long others wait because of a further copy (job seconds), while it is useful."""
    load_s = model.load_s(room.backend.view.name)
    reloads = 0.0
    for copy in room.victims:
        victim, victim_load_s = copy.model, copy.model.load_s(copy.view.backend)
        needed = 1 - exp(-victim.view.rate_per_s * drain_s)
        waits = needed * victim_load_s * (1 + victim.view.rate_per_s * victim_load_s / 2)
        if any(other is not copy and other.serves for other in victim.copies):
            waits *= OTHER_COPY_SHARE
        elif not _could_return(state, copy, model, room):
            waits += victim.view.rate_per_s * (AWAY_SHARE * drain_s) ** 2 / 2
        reloads += waits
    return reloads + delayed_per_s(state, model, room) * load_s * load_s / 2


def _could_return(state: FleetState, victim: CopyState, model: ModelState, room: Eviction) -> bool:
    """Return whether a victim could be loaded again next to the further copy, or on another host.

    Only checked if servers share the GPU. With one server, victims return sooner than this check
    predicts: bursts waited 1 to 2 % longer with it.
    """
    if all(len(host.backends) == 1 for host in room.hosts):
        return True
    return any(
        all(mb <= _left_mb(state, host, model, room) for host, mb in victim.model.needs(backend))
        for backend in candidates(state, victim.model)
    )


def _left_mb(state: FleetState, host: HostState, model: ModelState, room: Eviction) -> int:
    """Return a host's free MB with the further copy, counting copies that no job needs as free."""
    free_mb = host.view.usable_mb - host.used_mb
    for copy in host.copies:
        needless = is_idle(copy) and not copy.view.pinned and not is_awaited(state, copy)
        if needless or copy in room.victims:
            free_mb += copy.mb_on(host)
    coming = [mb for there, mb in model.needs(room.backend) if there is host]
    return free_mb - sum(coming)


def delayed_per_s(state: FleetState, model: ModelState, room: Eviction) -> float:
    """Return the arrivals per second that would have to wait for this load to end.

    They need the host's one loader or, on a serial backend, their copies cannot run during the
    load.
    """
    backend = room.backend
    names = {other.view.name for host in room.hosts for other in host.backends}
    return sum(
        other.view.rate_per_s
        for other in state.models.values()
        if other is not model
        and (
            backend.view.serial and any(copy.backend is backend for copy in other.copies)
            if other.served
            else names.intersection(other.view.backends)
        )
    )
