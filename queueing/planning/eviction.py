"""Making space on a host: which copies must leave so that a model fits, and at what cost (R3).

Read-only queries of the fleet state. They are frequent, so they neither log nor explain.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from queueing.core.snapshot import Residency
from queueing.planning.eviction_units import EvictionUnit, cheapest, lacking_mb, over_gpus
from queueing.planning.fleet_state import FleetState, has_time_to_load
from queueing.planning.states import (
    BackendState,
    CopyState,
    Eviction,
    HostState,
    ModelState,
    Opening,
)

OTHER_COPY_SHARE = 0.25  # relative cost of an eviction if the model keeps another copy

May = Callable[[CopyState], bool]
"""Whether a copy may leave, by the caller's criteria."""


def candidates(state: FleetState, model: ModelState) -> list[BackendState]:
    """Return the usable backends that may load the model, in its order of preference.

    A model larger than every one of its hosts may take one alone if the server can offload. Models
    whose server cannot are refused at start.
    """
    if model.candidates is None:
        backends = [state.backends[name] for name in model.view.backends if name in state.backends]
        if model.view.shares:
            fitting = [b for b in backends if _fits_alone(model, b)] or backends
        else:
            vram_mb = model.view.vram_mb
            fitting = [b for b in backends if vram_mb <= b.host.view.budget_mb] or backends
        model.candidates = [backend for backend in fitting if backend.usable]
    return model.candidates


def _fits_alone(model: ModelState, backend: BackendState) -> bool:
    return all(mb <= host.view.budget_mb for host, mb in model.needs(backend))


def openings(state: FleetState) -> list[Opening]:
    """Return the unreserved backends with a free loader, in order.

    Cached, because most models need no further search if all GPUs are full.
    """
    if state.openings is None:
        state.openings = [
            _opening(state, backend)
            for backend in state.backends.values()
            if backend.usable and backend.may_load and not backend.occupied
        ]
    return state.openings


def places_for(state: FleetState, model: ModelState) -> list[BackendState]:
    """Return the openings that may have space for the model."""
    found, needed_mb = [], model.view.vram_mb
    for opening in openings(state):
        if opening.gpus is None and opening.room_mb < needed_mb and not opening.all_may_leave:
            continue  # the common case, inlined from `takes` for speed
        if opening.takes(model.view) and has_time_to_load(state, model, opening.backend):
            found.append(opening.backend)
    return found


def may_be_placed(state: FleetState, models: Sequence[ModelState]) -> bool:
    """Return whether any of these models may fit at an opening.

    A quick check that avoids sorting them; it may be true although none fits.
    """
    found = openings(state)
    if not found or not models:
        return False
    least_mb = min([model.view.vram_mb for model in models])
    for opening in found:
        if opening.gpus is None and opening.room_mb < least_mb and not opening.all_may_leave:
            continue
        if any(opening.takes(model.view) for model in models):
            return True
    return False


def _opening(state: FleetState, backend: BackendState) -> Opening:
    if len(backend.hosts) == 1:
        return _room_on(state, backend, backend.host)
    gpus = {h.view.name: _room_on(state, backend, h) for h in backend.hosts if h.may_load}
    return replace(next(iter(gpus.values())), gpus=gpus)


def _room_on(state: FleetState, backend: BackendState, host: HostState) -> Opening:
    spare, view = spare_mb(state, host), host.view
    return Opening(backend, host, view.usable_mb - host.used_mb + spare, spare >= host.used_mb)


def spare_mb(state: FleetState, host: HostState) -> int:
    """Return the most MB that could leave the host at once.

    Used to skip searches that cannot succeed.
    """
    if host.spare_mb is None:
        host.spare_mb = sum(
            copy.mb_on(host)
            for copy in host.copies
            if is_idle(copy) and not (is_awaited(state, copy) and copy.cutoff is None)
        )
    return host.spare_mb


def could_fit(state: FleetState, model: ModelState, backend: BackendState) -> bool:
    """Return whether the most that could leave at once is enough.

    Used to skip searches that cannot succeed.
    """
    for host, needed_mb in model.needs(backend):
        if lacking_mb(host, needed_mb) > spare_mb(state, host):
            return False
    return True


def could_make_room(model: ModelState, backend: BackendState, may: May) -> bool:
    """Return whether all copies that may leave would make enough space.

    Used to skip searches that cannot succeed.
    """
    for host, needed_mb in model.needs(backend):
        missing = lacking_mb(host, needed_mb)
        for copy in host.copies:
            if missing <= 0:
                break
            if may(copy):
                missing -= copy.mb_on(host)
        if missing > 0:
            return False
    return True


def is_idle(copy: CopyState) -> bool:
    """Return whether a copy could leave now without disturbing work."""
    return (
        copy.residency is Residency.READY
        and copy.running == 0
        and copy.backend.view.up
        and not copy.backend.occupied
    )


def is_awaited(state: FleetState, copy: CopyState) -> bool:
    """Return whether a waiting job needs this copy now, or before it could be loaded again."""
    back_by = state.now + copy.model.load_s(copy.view.backend)
    return any(
        lane.head is not None
        or (lane.view.next_start_at is not None and lane.view.next_start_at <= back_by)
        for lane in copy.model.lanes
        if lane.left > 0 and not copy.model.view.paused
    )


def is_done_with(state: FleetState, copy: CopyState) -> bool:
    """Return whether no waiting job may still start on a copy with a cutoff."""
    cutoff = copy.cutoff
    return cutoff is not None and not any(
        lane.head is not None and cutoff.admits(lane.head, state.now) for lane in copy.model.lanes
    )


def may_leave_now(state: FleetState, model: ModelState) -> May:
    """Return a test for the copies a model may displace now: idle unawaited ones, or victims."""

    def may(copy: CopyState) -> bool:
        if not is_idle(copy):
            return False
        if not is_awaited(state, copy):
            return True
        return (
            copy.cutoff is not None
            and copy.cutoff.model == model.view.name
            and (is_done_with(state, copy))
        )

    return may


def make_room(model: ModelState, backend: BackendState, may: May) -> Eviction | None:
    """Return the cheapest way to fit the model on a backend by evicting copies that may leave.

    Returns None if too little may leave, or if the model is there already.
    """
    if any(copy.model is model for copy in backend.copies):
        return None  # it is there, or being unloaded
    needs = model.needs(backend)
    hosts = model.hosts_at(backend)
    units = _units(hosts, backend, may)
    first = _displaced(backend, units) if model.view.vram_mb else []
    chosen = None if first is None else _all_leaving(needs, units, first)
    if chosen is None:
        return None
    victims = tuple(copy for unit in chosen for copy in unit.copies)
    return Eviction(backend, victims, sum(unit.cost for unit in chosen), hosts)


def _all_leaving(
    needs: Sequence[tuple[HostState, int]], units: Sequence[EvictionUnit], first: list[EvictionUnit]
) -> list[EvictionUnit] | None:
    """Return the units that must leave, including `first`; None if they are not enough."""
    if len(needs) > 1:
        return over_gpus(needs, units, first)
    host, needed_mb = needs[0]
    missing = lacking_mb(host, needed_mb) - sum(unit.mb for unit in first)
    if missing <= 0:
        return first
    more = cheapest([unit for unit in units if unit not in first], missing)
    return None if more is None else [*first, *more]


def kept_out_by(model: ModelState, target: BackendState) -> CopyState | None:
    """Return a copy that keeps the model off a backend for good.

    Such a copy is pinned, or its server cannot unload. None if evicting the others makes enough
    space.
    """
    if any(copy.model is model for copy in target.copies):
        return None
    hosts = model.hosts_at(target)
    staying = [copy for host in hosts for copy in host.copies if _stays(copy, target)]
    if not staying or make_room(model, target, lambda _copy: True) is not None:
        return None
    return max(staying, key=lambda copy: copy.view.vram_mb)


def _stays(copy: CopyState, target: BackendState) -> bool:
    leaving = copy.residency is Residency.UNLOADING
    return copy.view.vram_mb > 0 and not leaving and not _can_go(copy, target)


def surplus(host: HostState, wanted: BackendState | None = None) -> list[CopyState]:
    """Return the copies of a host whose model has another copy there: they are evicted first.

    One copy of each model stays, chosen in this order: a pinned one, a ready one, one that is not
    on the backend `wanted`, one that runs jobs.
    """
    if not host.doubles:
        return []  # the usual case
    staying = [copy for copy in host.copies if copy.residency is not Residency.UNLOADING]
    kept: dict[str, CopyState] = {}
    for copy in staying:
        other = kept.get(copy.view.model)
        if other is None or _precedence(copy, wanted) > _precedence(other, wanted):
            kept[copy.view.model] = copy
    return [copy for copy in staying if kept[copy.view.model] is not copy]


def _precedence(
    copy: CopyState, wanted: BackendState | None
) -> tuple[bool, bool, bool, bool, float, int]:
    """Sort key for the copies of a model on one host: the greatest stays."""
    fixed = copy.view.pinned or not copy.backend.view.can_unload
    ready = copy.residency is Residency.READY
    ends_at = max(copy.view.ends_at, default=0.0)
    elsewhere = copy.backend is not wanted
    return fixed, ready, elsewhere, copy.running > 0, ends_at, -copy.backend.order


def reload_cost(copy: CopyState) -> float:
    """Return the cost of missing this copy: arrivals per second times the load they may wait for.

    It is 0 if another copy of the model stays on its host.
    """
    if len(copy.model.copies) > 1 and any(copy in surplus(host) for host in copy.hosts):
        return 0.0
    cost = copy.model.view.rate_per_s * copy.model.load_s(copy.view.backend)
    elsewhere = any(other is not copy and other.serves for other in copy.model.copies)
    return cost * OTHER_COPY_SHARE if elsewhere else cost


def _units(hosts: Sequence[HostState], target: BackendState, may: May) -> list[EvictionUnit]:
    """Group the copies that may leave by what leaves together.

    Their MB are those on the first host.
    """
    units, host = [], hosts[0]
    several = len(hosts) > 1
    backends = dict.fromkeys(b for h in hosts for b in h.backends) if several else host.backends
    for backend in backends:
        weighing = [copy for copy in backend.copies if copy.view.vram_mb]
        free = [copy for copy in weighing if may(copy) and _can_go(copy, target)]
        if not backend.view.unloads_together:
            units += [EvictionUnit((copy,), copy.mb_on(host), reload_cost(copy)) for copy in free]
        elif free and len(free) == len(weighing):  # one that must stay keeps all of them
            mb = sum(copy.mb_on(host) for copy in free)
            units.append(EvictionUnit(tuple(free), mb, sum(reload_cost(copy) for copy in free)))
    return units


def _can_go(copy: CopyState, target: BackendState) -> bool:
    """Return whether a copy can be evicted at all.

    A server that cannot unload on request still drops a model when it loads another, if it keeps a
    fixed number of models.
    """
    swaps = copy.backend is target and target.view.max_models is not None
    return not copy.view.pinned and (copy.backend.view.can_unload or swaps)


def _displaced(backend: BackendState, units: Sequence[EvictionUnit]) -> list[EvictionUnit] | None:
    """Return the units the backend's limit on models evicts; None if one of them may not leave."""
    bound = backend.view.max_models
    there = sum(copy.view.vram_mb > 0 for copy in backend.copies)
    excess = 0 if bound is None else there + 1 - bound
    chosen: list[EvictionUnit] = []
    own = [unit for unit in units if unit.copies[0].backend is backend]
    for unit in sorted(own, key=lambda unit: unit.cost):
        if excess <= 0:
            break
        chosen.append(unit)
        excess -= len(unit.copies)
    return chosen if excess <= 0 else None
