"""Rules R2 and R3: which models need a load, and where; also relieves memory pressure.

Never starts jobs. Models without a place are left to rule R4.
"""

from collections.abc import Sequence

from queueing.core.snapshot import EvictionCause, Reservation, Residency
from queueing.planning.eviction import (
    candidates,
    could_fit,
    is_awaited,
    is_idle,
    make_room,
    may_be_placed,
    may_leave_now,
    openings,
    places_for,
    reload_cost,
)
from queueing.planning.fleet_state import FleetState, has_time_to_load
from queueing.planning.reservations import (
    age_limit_s,
    all_reserved,
    kept_hosts,
    release,
    reserve,
    unmet_preloads,
)
from queueing.planning.states import BackendState, CopyState, Eviction, HostState, ModelState


def relieve(state: FleetState) -> None:
    """Unload idle copies on hosts where other programs have taken memory, the cheapest first.

    Copies without waiting jobs go first. Running copies stay even if they exceed the memory.
    """
    for host in state.hosts.values():
        excess = _excess_mb(host) if host.used_mb > host.view.usable_mb else 0
        if excess <= 0:
            continue
        idle = [c for c in host.copies if is_idle(c) and not c.view.pinned and _goes_alone(c)]
        for copy in sorted(idle, key=lambda c: (is_awaited(state, c), reload_cost(c))):
            if excess <= 0:
                break
            state.evict((copy,), EvictionCause.MEMORY)
            excess -= copy.mb_on(host)


def _excess_mb(host: HostState) -> int:
    """Return by how many MB the staying copies exceed the memory. A single model may offload."""
    staying = [copy for copy in host.copies if copy.residency is not Residency.UNLOADING]
    if len(staying) == 1 and staying[0].mb_on(host) >= host.view.budget_mb:
        return 0
    return sum(copy.mb_on(host) for copy in staying) - host.view.usable_mb


def _goes_alone(copy: CopyState) -> bool:
    view = copy.backend.view
    weighing = sum(other.view.vram_mb > 0 for other in copy.backend.copies)
    return view.can_unload and not (view.unloads_together and weighing > 1)


def place_all(state: FleetState) -> list[ModelState]:
    """Load the models that need it where there is space now. Returns the others (R2, R3).

    An admin's preloads come first, then models past half their age limit, then the oldest head.
    """
    models = _wanted(state)
    if not _has_place(state, models):
        return models  # the common case under load; skips the sorting
    models.sort(key=lambda model: _urgency(state, model))
    return [
        model
        for model in models
        if not ((model.reserved or openings(state)) and place(state, model))
    ]


def _wanted(state: FleetState) -> list[ModelState]:
    """Return the models that need a load, and set when each is overdue."""
    found, now = [], state.now
    for model in state.asking:
        if model.view.load_after > now:
            state.look(model.view.load_after)
        elif model.view.wanted_by_admin and unmet_preloads(state, model):
            model.due = 0.0
            found.append(model)
        elif model.oldest_at is not None and not (model.copies and model.served):
            model.due = max(model.oldest_at, model.left_at) + age_limit_s(state, model)
            found.append(model)
    return found


def _has_place(state: FleetState, models: Sequence[ModelState]) -> bool:
    """Return whether any of the wanted models may fit now."""
    for model in models:
        if model.reserved is not None and _kept(state, model.reserved, model):
            return True
    return may_be_placed(state, models)


def _urgency(state: FleetState, model: ModelState) -> tuple[bool, bool, float, int]:
    oldest = model.oldest_at
    if oldest is None:
        return False, False, 0.0, model.order
    preload = bool(model.view.wanted_by_admin) and bool(unmet_preloads(state, model))
    since = max(oldest, model.left_at)
    half_at = since + age_limit_s(state, model) / 2  # no `look` then: urgency alone starts nothing
    return not preload, half_at > state.now, oldest, model.order


def place(state: FleetState, model: ModelState) -> bool:
    """Load a wanted model where that costs least now. Returns whether it found a place (R3)."""
    room = _cheapest_room(state, model)
    if room is None:
        return False
    release(state, model)
    state.load(model, room.backend, room.victims)
    return True


def reserve_for_overdue(state: FleetState, homeless: Sequence[ModelState]) -> None:
    """Reserve hosts for wanted models without a place, the longest overdue first (R4)."""
    if not state.rules.gate:
        return
    overdue = []
    if all_reserved(state) and not any(model.spans for model in homeless):
        return  # the common case under load; a release makes all of them candidates
    for model in homeless:
        if model.due > state.now:
            state.look(model.due)
        elif model.reserved is None:
            overdue.append(model)
    if len(overdue) > 1:
        overdue.sort(key=lambda model: (model.due, *_urgency(state, model)))
    for model in overdue:
        if model.reserved is None and reserve(state, model):
            # The displaced models may have no jobs left that the cutoff admits, so it may fit at
            # once.
            place(state, model)


def _cheapest_room(state: FleetState, model: ModelState) -> Eviction | None:
    places = places_for(state, model)
    if model.reserved is not None:
        places += _kept(state, model.reserved, model)
    if not places:
        return None
    may = may_leave_now(state, model)
    targets = unmet_preloads(state, model) or candidates(state, model)
    rooms = [
        room
        for backend in targets
        if backend in places and (room := make_room(model, backend, may)) is not None
    ]
    return min(rooms, key=lambda room: _preference(model, room), default=None)


def _kept(state: FleetState, reserved: Reservation, model: ModelState) -> list[BackendState]:
    """Return the backends of the hosts reserved for the model that could load now."""
    host, backend = state.hosts[reserved.host], state.backends[reserved.backend]
    hosts = kept_hosts(state, reserved)
    for each in hosts:
        if each.loading is not None:
            return []
    if not could_fit(state, model, backend):
        return []
    return [
        backend
        for backend in host.backends
        if backend.usable
        and not backend.occupied
        and has_time_to_load(state, model, backend)
        and (len(backend.hosts) == 1 or _is_within(model, backend, hosts))
    ]


def _is_within(model: ModelState, backend: BackendState, hosts: Sequence[HostState]) -> bool:
    return backend.view.name in model.view.backends and all(
        host in hosts for host in model.hosts_at(backend)
    )


def _preference(model: ModelState, room: Eviction) -> tuple[bool, float, float]:
    """Order places: free memory, then the cheapest eviction, then the shortest load."""
    return bool(room.victims), room.cost, model.load_s(room.backend.view.name)
