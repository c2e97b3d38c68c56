"""Rule R4: reserves hosts for models that waited too long, and sets cutoffs on the victims.

It evicts and loads nothing; rule R3 does.
"""

from collections.abc import Iterator

from queueing.core.snapshot import Evict, Reservation, Residency
from queueing.planning.eviction import May, candidates, could_make_room, make_room
from queueing.planning.fleet_state import FleetState, has_time_to_load
from queueing.planning.states import (
    BackendState,
    CopyState,
    Cutoff,
    Eviction,
    HeldReservation,
    HostState,
    ModelState,
)

CLOSED_AFTER_LOADS = 4.0  # no job starts from this many swaps after `arrived_by`
LOADS_IN_LIMIT = 2.0  # the age limit includes this many loads of the waiting model
# With n models for H hosts, the age limit grows by this times (n - H) / H.
CROWD_SHARE = 3.0


def age_limit_s(state: FleetState, model: ModelState) -> float:
    """Return how many seconds a wanted model waits before a host is reserved for it.

    If more models with long queues wait for a load than there are hosts, no order serves them all
    in time, and frequent loads only waste time. The limit then grows, so that a copy serves for
    longer. It depends on the number of models, not on the number of requests.
    """
    common_s = state.crowded_limit_s
    if common_s is None:  # computed once per decision
        common_s = crowded_limit_s(state)
    return common_s + LOADS_IN_LIMIT * model.usual_load_s


def crowded_limit_s(state: FleetState) -> float:
    """Return the part of the age limit that all models share; it grows with the waiting models.

    It lies between the limit of the rules and the limit that would apply if every model waited.
    """
    if state.crowded_limit_s is not None:
        return state.crowded_limit_s
    hosts = max(1, len(state.hosts))
    queues = 0
    for model in state.waiting:
        is_long = model.waiting * model.usual_service_s >= model.load_work_s
        if is_long and model.oldest_at is not None and not (model.copies and model.served):
            queues += 1
    crowding = max(1.0, CROWD_SHARE * (queues - hosts) / hosts)
    state.crowded_limit_s = state.rules.age_limit_s * crowding
    return state.crowded_limit_s


def waits_since(model: ModelState) -> float | None:
    """Return since when the model has waited for a copy; None if nothing startable waits."""
    oldest = model.oldest_at
    return None if oldest is None else max(oldest, model.left_at)


def due_at(state: FleetState, model: ModelState) -> float | None:
    """Return when the model is overdue: 0 for an admin's preload, None if it does not wait."""
    if model.view.wanted_by_admin and unmet_preloads(state, model):
        return 0.0
    since = waits_since(model)
    return None if since is None else since + age_limit_s(state, model)


def unmet_preloads(state: FleetState, model: ModelState) -> list[BackendState]:
    """Return the backends where an admin wants the model and it is neither loaded nor loading."""
    if not model.view.wanted_by_admin:
        return []
    return [
        backend
        for name in model.view.wanted_by_admin
        if (backend := state.backends.get(name)) is not None
        and not any(
            copy.backend is backend and copy.residency is not Residency.UNLOADING
            for copy in model.copies
        )
    ]


def renew(state: FleetState) -> None:
    """Renew the last plan's reservations that still hold, and their cutoffs."""
    for old in state.reservations:
        model = state.models.get(old.model)
        backend = state.backends.get(old.backend)
        if model is None or backend is None:
            continue
        due = due_at(state, model)
        if due is None or due > state.now or not _still_waits(state, model, backend):
            continue
        held = state.hosts[old.host].held
        if held is None or held.reservation is not old or not _is_unchanged(held):
            room = _room_from_victims(old, model, backend)
            if room is not None:
                _reserve(state, model, room)
        elif old.due == due:
            _close(state, model, held)  # no copy has come or gone
        else:
            _reserve(state, model, held.space)


def _is_unchanged(held: HeldReservation) -> bool:
    """Return whether no copy on any of its hosts has come or gone."""
    hosts = held.space.hosts
    return len(hosts) == 1 or all(host.held is held for host in hosts)


def _room_from_victims(
    old: Reservation, model: ModelState, backend: BackendState
) -> Eviction | None:
    """Return the space that the earlier victims still make, None if it no longer suffices."""
    names = {(victim.model, victim.backend) for victim in old.victims}
    victims = [
        copy
        for host in backend.hosts
        for copy in host.copies
        if (copy.view.model, copy.view.backend) in names
    ]
    return make_room(model, backend, victims.__contains__)


def _still_waits(state: FleetState, model: ModelState, backend: BackendState) -> bool:
    """Return whether an overdue model could still be loaded there, and needs to be."""
    if not backend.usable:
        return False
    for host in model.hosts_at(backend):
        if host.reservation is not None:
            return False
    if not has_time_to_load(state, model, backend):
        return False
    return not model.served or bool(unmet_preloads(state, model))


def reserve(state: FleetState, model: ModelState) -> bool:
    """Reserve the host whose cheapest victims leave soonest, if any, for an overdue model."""
    if not model.spans and all_reserved(state):
        return False
    targets = unmet_preloads(state, model) or candidates(state, model)
    may = _may_be_reserved(state, model)
    rooms = [
        room
        for backend in targets
        if (len(backend.hosts) > 1 or backend.host.reservation is None)  # under load most have one
        and backend.usable
        and _may_be_kept(state, model, backend)
        and has_time_to_load(state, model, backend)
        and could_make_room(model, backend, may)
        if (room := make_room(model, backend, may)) is not None
    ]
    if not rooms:
        return False
    room = min(rooms, key=lambda room: _preference(state, model, room))
    for host in room.hosts:
        if host.reservation is not None:
            release(state, state.models[host.reservation.model])
    _reserve(state, model, room)
    return True


def all_reserved(state: FleetState) -> bool:
    """Return whether every host is reserved."""
    return None not in [host.reservation for host in state.hosts.values()]


def kept_hosts(state: FleetState, reserved: Reservation) -> list[HostState]:
    """Return the hosts of a reservation."""
    return [state.hosts[name] for name in reserved.hosts or (reserved.host,)]


def _may_be_kept(state: FleetState, model: ModelState, backend: BackendState) -> bool:
    """Return whether all hosts of a backend can be reserved.

    A model that spans GPUs may take those reserved for models that became overdue later. Otherwise
    one GPU or another might always be reserved for another model.
    """
    if len(backend.hosts) == 1:
        return backend.host.reservation is None
    hosts = model.hosts_at(backend)
    taken = [host.reservation.due for host in hosts if host.reservation is not None]
    if not taken:
        return True
    due = due_at(state, model)
    return len(hosts) > 1 and due is not None and due < min(taken)


def _may_be_reserved(state: FleetState, model: ModelState) -> May:
    """Return a test for copies that could ever be evicted, however busy they are now.

    A copy that is still loading counts only once the model has waited twice its limit. When the
    load ends, others may fit next to it first, and memory would stay empty until the cutoff closes.
    """
    late_at = (due_at(state, model) or 0.0) + age_limit_s(state, model)
    given = state.now >= late_at or bool(unmet_preloads(state, model))

    def may(copy: CopyState) -> bool:
        if not copy.backend.view.up or copy.residency is Residency.UNLOADING:
            return False
        return given or copy.residency is Residency.READY

    return may


def _preference(state: FleetState, model: ModelState, room: Eviction) -> tuple[float, float, int]:
    empty_at = max(
        (_leaves_at(state, model, room.backend, copy) for copy in _copies_with_cutoff(room)),
        default=state.now,
    )
    for host in room.hosts:
        if host.loading is not None:
            empty_at = max(empty_at, host.loading.view.ready_at)
    return empty_at, room.cost, room.backend.order


def _copies_with_cutoff(room: Eviction) -> Iterator[CopyState]:
    """Yield the copies that get a cutoff: the victims, and all copies on a serial target.

    A serial backend loads only while it does nothing else, so all its copies must pause.
    """
    yield from room.victims
    if room.backend.view.serial:
        yield from (copy for copy in room.backend.copies if copy not in room.victims)


def _leaves_at(
    state: FleetState, model: ModelState, target: BackendState, copy: CopyState
) -> float:
    """Estimate when a copy will have finished what its cutoff lets it start."""
    now = state.now
    service_s = copy.model.service_s(copy.view.backend)
    begins = max(now, copy.view.ready_at)
    ends = max(copy.view.ends_at, default=now + service_s) if copy.running else begins
    if not copy.model.waiting:
        return ends
    slots = max(1, copy.model.view.parallel * len(copy.model.copies))
    emptied = max(ends, begins) + copy.model.waiting * service_s / slots
    cutoff = _cutoff(state, model, target, copy, due_at(state, model) or 0.0)
    return min(max(emptied, cutoff.arrived_by), cutoff.ends_at + service_s)


def _cutoff(
    state: FleetState, model: ModelState, target: BackendState, copy: CopyState, due: float
) -> Cutoff:
    """Return the cutoff of a copy that must leave for a model overdue since `due`.

    Jobs that arrive after its `arrived_by` wait. A newly loaded copy gets enough time to be worth
    its load (`patience` swaps), so that two busy models do not thrash.
    """
    swap_s = model.load_s(target.view.name) + copy.model.load_s(copy.view.backend)
    return gate_for(
        model.view.name, due, copy.view.ready_at, swap_s=swap_s, patience=state.rules.patience
    )


def gate_for(model: str, due: float, ready_at: float, *, swap_s: float, patience: float) -> Cutoff:
    """Return the cutoff of a copy ready since `ready_at` for a model overdue since `due`."""
    arrived_by = max(due, ready_at + patience * swap_s)
    return Cutoff(model, arrived_by, arrived_by + CLOSED_AFTER_LOADS * swap_s)


def _reserve(state: FleetState, model: ModelState, room: Eviction) -> None:
    due = due_at(state, model) or 0.0
    leaving = sorted(room.victims, key=lambda copy: (copy.backend.order, copy.view.model))
    victims = tuple(Evict(model=c.view.model, backend=c.view.backend) for c in leaving)
    hosts = tuple([host.view.name for host in room.hosts])
    reservation = Reservation(
        host=hosts[0],
        backend=room.backend.view.name,
        model=model.view.name,
        due=due,
        victims=victims,
        hosts=hosts if len(hosts) > 1 else (),
    )
    cutoffs = tuple(
        (copy, _cutoff(state, model, room.backend, copy, due)) for copy in _copies_with_cutoff(room)
    )
    _close(state, model, HeldReservation(reservation, room, cutoffs))


def _close(state: FleetState, model: ModelState, held: HeldReservation) -> None:
    """Reserve the hosts, and set the cutoffs on the copies that must leave."""
    model.reserved = held.reservation
    for host in held.space.hosts:
        host.reservation = held.reservation
        state.changed(host)
        host.held = held
    for copy, cutoff in held.cutoffs:
        copy.cutoff = cutoff
        state.look(cutoff.ends_at)


def release(state: FleetState, model: ModelState) -> None:
    """Lift a model's reservation and its cutoffs."""
    if model.reserved is None:
        return
    backend = state.backends[model.reserved.backend]
    for host in kept_hosts(state, model.reserved):
        host.reservation = None
        state.changed(host)
    model.reserved = None
    for host in backend.hosts:
        for copy in host.copies:
            if copy.cutoff is not None and copy.cutoff.model == model.view.name:
                copy.cutoff = None
