"""Rule R6: idle hosts that may do so load the model that will probably be requested next.

A request for another model stops such a load where the server can stop one; elsewhere it waits for
the load. `docs/decisions/0031-predictive-loading.md` measures what the rule gains and costs.
"""

from collections.abc import Mapping, Sequence

from queueing.core.snapshot import Copy, Load, ModelView, Reason, Residency, Snapshot
from queueing.planning.eviction import candidates, is_idle, make_room
from queueing.planning.fleet_state import FleetState, has_time_to_load
from queueing.planning.replicas import delayed_per_s
from queueing.planning.states import BackendState, Eviction, HostState, ModelState

IDLE_S = 60.0  # how long a host must have been idle
WORTH = 2.0  # how often the expected gain must exceed the expected cost


def load_ahead(state: FleetState) -> None:
    """Load at most one model ahead on each server whose hosts are idle and allow it."""
    if not any(host.view.loads_ahead for host in state.hosts.values()):
        return
    for backend in state.backends.values():
        if backend.usable and not backend.occupied and _are_idle(state, backend.hosts):
            _load_likeliest(state, backend)


def _are_idle(state: FleetState, hosts: Sequence[HostState]) -> bool:
    """Return whether hosts load ahead and have been idle long enough, or will be looked at then."""
    if any(_is_needed(state, host) for host in hosts):
        return False
    due_at = max(_idle_since(state, host) for host in hosts) + IDLE_S
    state.look(due_at)
    return due_at <= state.now


def _is_needed(state: FleetState, host: HostState) -> bool:
    """Return whether a host does not load ahead, or something runs, moves or waits there."""
    if not host.view.loads_ahead or host.view.asleep or host.running or not host.may_load:
        return True
    if any(copy.residency is not Residency.READY for copy in host.copies):
        return True
    return any(
        host in model.hosts_at(backend)
        for model in state.asking
        if not model.view.paused
        for backend in candidates(state, model)
    )


def _idle_since(state: FleetState, host: HostState) -> float:
    """Return when the last job or load ended on a host, or the last copy left it."""
    names = {backend.view.name for backend in host.backends}
    left = [m.left_at for m in state.models.values() if not names.isdisjoint(m.view.backends)]
    return max([*(copy.view.idle_since for copy in host.copies), *left], default=0.0)


def _load_likeliest(state: FleetState, backend: BackendState) -> None:
    absent = [
        model
        for model in state.models.values()
        if not model.copies
        and model.view.ahead_until > state.now
        and model.view.load_after <= state.now
        and not model.view.paused
    ]
    for model in sorted(absent, key=lambda model: (-model.view.rate_per_s, model.order)):
        room = _room(state, model, backend)
        if room is not None and _pays(state, model, room):
            state.load(model, backend, room.victims, ahead=True)
            return


def _room(state: FleetState, model: ModelState, backend: BackendState) -> Eviction | None:
    """Return how a model fits by evicting only models that are less likely to be requested."""
    if backend not in candidates(state, model) or not has_time_to_load(state, model, backend):
        return None
    rate_per_s = model.view.rate_per_s
    return make_room(
        model,
        backend,
        lambda copy: is_idle(copy) and copy.model.view.rate_per_s < rate_per_s,
    )


def _pays(state: FleetState, model: ModelState, room: Eviction) -> bool:
    """Return whether the expected gain is well above the expected cost, both in seconds.

    The gain is the chance that the model is requested next, times its load. The cost is the same of
    each evicted model, and half a load for each request that would have to wait for this one.
    """
    total_per_s = sum(each.view.rate_per_s for each in state.models.values())
    if total_per_s <= 0.0:
        return False
    load_s = model.load_s(room.backend.view.name)
    lost = sum(
        copy.model.view.rate_per_s * copy.model.load_s(copy.view.backend) for copy in room.victims
    )
    delayed = delayed_per_s(state, model, room) * load_s * load_s / 2
    gain = model.view.rate_per_s * load_s
    return gain / total_per_s > WORTH * (lost / total_per_s + delayed)


def in_the_way(
    snapshot: Snapshot, loads: Sequence[Load], reasons: Mapping[str, Reason]
) -> tuple[Copy, ...]:
    """Return the copies that load ahead, can be stopped, and keep a waiting model from its turn.

    `loads` are those that begin now. `reasons` has a reason for each model whose jobs still wait.
    """
    loading = [
        copy
        for copy in snapshot.copies
        if copy.ahead
        and copy.residency is Residency.LOADING
        and not copy.pinned
        and snapshot.backends[copy.backend].stops_loads
    ]
    if not loading:
        return ()
    begun = {load.model for load in loads}
    waiting = [snapshot.models[name] for name in reasons if name not in begun]
    asked = {model.name for model in waiting}
    return tuple(
        copy
        for copy in loading
        if copy.model not in asked and any(_keeps(snapshot, copy, model) for model in waiting)
    )


def _keeps(snapshot: Snapshot, copy: Copy, model: ModelView) -> bool:
    """Return whether a load may be what a waiting model waits for."""
    if model.paused or model.load_after > snapshot.now:
        return False
    own = [other for other in snapshot.copies if other.model == model.name]
    there = [other for other in own if other.residency is not Residency.UNLOADING]
    if there:
        serial = snapshot.backends[copy.backend].serial
        return serial and any(other.backend == copy.backend for other in there)
    gpus = _gpus(snapshot, copy.backend)
    return any(not gpus.isdisjoint(_gpus(snapshot, name)) for name in model.backends)


def _gpus(snapshot: Snapshot, backend: str) -> frozenset[str]:
    view = snapshot.backends.get(backend)
    return frozenset() if view is None else frozenset(view.hosts or (view.host,))
