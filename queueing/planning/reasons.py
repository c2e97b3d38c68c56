"""Why each waiting model waits: one reason per model, after everything else is decided.

Only reads the fleet state; `bot.texts.reasons` puts a reason into words.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from math import inf

from queueing.core.snapshot import Reason, Residency, WaitCause
from queueing.core.specs import together
from queueing.planning.eviction import candidates, kept_out_by
from queueing.planning.eviction_units import lacking_mb
from queueing.planning.fleet_state import FleetState, has_time, has_time_to_load
from queueing.planning.hosts import next_quiet, why_rests
from queueing.planning.states import BackendState, CopyState, Cutoff, HostState, ModelState


def explain(state: FleetState) -> Mapping[str, Reason]:
    """Return the reason of every model that had waiting jobs when the decision began."""
    keeping = _hosts_with_fixed_copies(state)
    return {model.view.name: _reason(state, model, keeping) for model in state.waiting}


def why_not_loaded(state: FleetState, model: ModelState) -> Reason:
    """Return why a wanted model is not being loaded."""
    return _why_not_loaded(state, model, _hosts_with_fixed_copies(state))


def _hosts_with_fixed_copies(state: FleetState) -> Collection[str]:
    """Return the hosts that have a copy which never leaves for others; usually none."""
    return {
        host.view.name
        for copy in state.copies.values()
        if copy.view.pinned or not copy.backend.view.can_unload
        for host in copy.hosts
    }


def _reason(state: FleetState, model: ModelState, keeping: Collection[str]) -> Reason:
    """Return the first reason that applies: first those of the model, then those of its hosts."""
    name = model.view.name
    if model.view.paused:
        return Reason(why=WaitCause.PAUSED, model=name)
    if model.waiting == 0:
        return Reason(why=WaitCause.STARTING, model=name)
    if model.oldest_at is None and not any(lane.taken for lane in model.lanes):
        until = min(_next_starts(model), default=None)
        held = any(lane.view.held for lane in model.lanes)
        waits = WaitCause.HELD if until is None else WaitCause.ENHANCING
        why = waits if held else WaitCause.RETRY_PAUSE
        return Reason(why=why, model=name, until=until)
    serving = [copy for copy in model.copies if copy.serves]
    ready = [copy for copy in serving if copy.residency is Residency.READY]
    if ready:
        return _why_not_started(state, model, ready)
    if serving:
        first = min(serving, key=lambda copy: copy.view.ready_at)
        return Reason(
            why=WaitCause.LOADING,
            model=name,
            host=together([host.view.name for host in first.hosts]),
        )
    return _why_not_loaded(state, model, keeping)


def _next_starts(model: ModelState) -> list[float]:
    return [lane.view.next_start_at for lane in model.lanes if lane.view.next_start_at is not None]


# ---------------------------------------------------------------- its model is in memory


def _why_not_started(state: FleetState, model: ModelState, ready: Sequence[CopyState]) -> Reason:
    """Return why a model with ready copies still has waiting jobs."""
    name = model.view.name
    late = {id(copy): copy.free and not _has_time(state, copy) for copy in ready}
    copy = min(ready, key=lambda copy: (late[id(copy)], copy.running, copy.backend.order))
    if late[id(copy)]:
        return _too_late(state, name, [copy.backend])
    backend, host = copy.backend, copy.hosts[0].view.name
    if backend.alone or backend.waits_for is not None:
        return Reason(why=WaitCause.SUSPECT, model=name, host=host, other=_runner(backend))
    if copy.free and copy.cutoff is not None:
        return _cached_reason(WaitCause.GATED, name, _emptied(copy, copy.cutoff), copy.cutoff.model)
    if copy.running == 0 and backend.occupied:
        for gpu in copy.hosts:
            if gpu.loading is not None and gpu.loading.backend is backend:
                return _loader_busy(name, gpu)
        return _cached_reason(WaitCause.ROOM_BUSY, name, host, _runner(backend))
    return _cached_reason(WaitCause.QUEUED, name, host)


def _emptied(copy: CopyState, cutoff: Cutoff) -> str:
    """Return the GPU on which a copy with a cutoff makes room for another model."""
    kept = [gpu.view.name for gpu in copy.hosts if _is_kept(gpu, cutoff.model)]
    return kept[0] if kept else copy.hosts[0].view.name


def _is_kept(gpu: HostState, model: str) -> bool:
    return gpu.reservation is not None and gpu.reservation.model == model


def _has_time(state: FleetState, copy: CopyState) -> bool:
    """Return whether the next job of any lane would end before quiet hours."""
    heads = [lane.head for lane in copy.model.lanes if lane.head is not None]
    return not heads or any(has_time(state, copy, head) for head in heads)


def _too_late(state: FleetState, name: str, backends: Sequence[BackendState]) -> Reason:
    """Return the reason of a model that cannot finish before quiet hours."""
    hosts = {host.view.name: host.view for backend in backends for host in backend.hosts}
    spans = [(span, host) for host, view in hosts.items() if (span := next_quiet(view, state.now))]
    (begins_at, ends_at), host = min(spans, key=lambda found: found[0][1])
    return Reason(why=WaitCause.QUIET_SOON, model=name, host=host, since=begins_at, until=ends_at)


def _runner(backend: BackendState) -> str | None:
    """Return a model whose jobs occupy the backend."""
    running = [copy.view.model for copy in backend.copies if copy.running > 0]
    return running[0] if running else backend.waits_for


def _loader_busy(name: str, host: HostState) -> Reason:
    copy = host.loading
    return Reason(
        why=WaitCause.LOADER_BUSY,
        model=name,
        host=host.view.name,
        other=None if copy is None else copy.view.model,
    )


# ---------------------------------------------------------------- its model is not in memory


def _why_not_loaded(state: FleetState, model: ModelState, keeping: Collection[str]) -> Reason:
    usable = candidates(state, model)
    if not usable:
        return _why_not_usable(state, model)
    if model.view.load_after > state.now:
        return Reason(why=WaitCause.LOAD_PAUSE, model=model.view.name, until=model.view.load_after)
    in_time = [backend for backend in usable if has_time_to_load(state, model, backend)]
    if not in_time:
        return _too_late(state, model.view.name, usable)
    return _why_no_room(model, in_time, keeping)


def _why_not_usable(state: FleetState, model: ModelState) -> Reason:
    """Return why a model cannot be loaded anywhere: its hosts are down or paused."""
    name = model.view.name
    backends = [state.backends[b] for b in model.view.backends if b in state.backends]
    up = [backend for backend in backends if backend.view.up]
    refused = next((each.view.name for each in backends if each.view.key_refused), None)
    if not up and refused is not None:
        return Reason(why=WaitCause.KEY, model=name, backend=refused)
    if not up:
        last = max(backends, key=lambda backend: backend.view.since, default=None)
        return Reason(
            why=WaitCause.OFFLINE,
            model=name,
            host=None if last is None else _place(last),
            backend=None
            if last is None or not _has_other_server_up(state, last)
            else last.view.name,
            since=None if last is None else last.view.since,
        )
    return _why_resting(state, name, up)


def _has_other_server_up(state: FleetState, away: BackendState) -> bool:
    """Return whether another server of its hosts answers, so that the hosts are not offline."""
    return any(
        other.view.up and any(host in away.hosts for host in other.hosts)
        for other in state.backends.values()
    )


def _place(backend: BackendState) -> str:
    """Return where a server runs: its host, or the machine if it has several GPUs."""
    host = backend.host.view
    return host.machine or host.name if len(backend.hosts) > 1 else host.name


def _why_resting(state: FleetState, name: str, up: Sequence[BackendState]) -> Reason:
    """Return why hosts that are up do nothing: what ends soonest, an admin's pause last of all."""
    rests = [
        reason
        for backend in up
        if backend.open
        for host in backend.hosts
        if (reason := why_rests(host.view, state.now, name)) is not None
    ]
    gpus = (host.view for backend in up for host in backend.hosts)
    stopped = next((view.name for view in gpus if view.paused), up[0].view.host)
    paused = Reason(why=WaitCause.PAUSED, model=name, host=stopped)
    return min(rests, key=lambda reason: reason.until or inf, default=paused)


def _why_no_room(
    model: ModelState, usable: Sequence[BackendState], keeping: Collection[str]
) -> Reason:
    """Return what keeps the model off the host that will take it soonest, as far as known."""
    name = model.view.name
    able, kept = _able(model, usable, keeping)
    if not able:
        return _taken_by_others(model, usable[0]) if kept is None else _kept_by_copy(model, *kept)
    backend = _soonest(model, able)
    if backend is None:
        first = next(host for host in model.hosts_at(able[0]) if host.reservation is not None)
        other = None if first.reservation is None else first.reservation.model
        return _cached_reason(WaitCause.RESERVED, name, first.view.name, other)
    needs = model.needs(backend)
    for host, _ in needs:
        if host.loading is not None:
            return _loader_busy(name, host)
    for host, needed_mb in needs:
        if len(needs) > 1 and lacking_mb(host, needed_mb) <= 0:
            continue
        for copy in host.copies:
            if copy.running > 0:
                return _cached_reason(WaitCause.ROOM_BUSY, name, host.view.name, copy.view.model)
    return _cached_reason(WaitCause.ROOM_BUSY, name, needs[0][0].view.name)


def _able(
    model: ModelState, usable: Sequence[BackendState], keeping: Collection[str]
) -> tuple[Sequence[BackendState], tuple[BackendState, CopyState] | None]:
    """Return the backends with space after evictions, and a copy that stays on another."""
    needed_mb, able = model.view.vram_mb, []
    kept: tuple[BackendState, CopyState] | None = None
    for backend in usable:
        if model.view.shares:
            lacks, may_stay = _over_gpus(model, backend, keeping)
        else:
            host = backend.host.view
            lacks = host.usable_mb < needed_mb < host.budget_mb
            may_stay = host.name in keeping
        if lacks:
            continue  # other programs hold the memory it needs; see `lacking_mb`
        stays = kept_out_by(model, backend) if may_stay else None
        if stays is None:
            able.append(backend)
        elif kept is None:
            kept = backend, stays
    return able, kept


def _over_gpus(
    model: ModelState, backend: BackendState, keeping: Collection[str]
) -> tuple[bool, bool]:
    """Return whether other programs hold memory it needs, and whether a copy stays on a GPU."""
    needs = [(host.view, mb) for host, mb in model.needs(backend)]
    lacks = any(host.usable_mb < mb < host.budget_mb for host, mb in needs)
    return lacks, any(host.name in keeping for host, _ in needs)


def _taken_by_others(model: ModelState, backend: BackendState) -> Reason:
    """Return the reason that other programs hold memory the model needs, with the GPU."""
    needs = [(host.view, mb) for host, mb in model.needs(backend)]
    full = next((view.name for view, mb in needs if view.usable_mb < mb), needs[0][0].name)
    return _cached_reason(WaitCause.NO_ROOM, model.view.name, full)


def _kept_by_copy(model: ModelState, backend: BackendState, kept: CopyState) -> Reason:
    """Return the reason that a copy stays on a GPU that the model needs and that lacks room."""
    shared = [(host, mb) for host, mb in model.needs(backend) if host in kept.hosts]
    full = (host for host, mb in shared if lacking_mb(host, mb) > 0)
    why = WaitCause.PINNED if kept.view.pinned else WaitCause.KEPT
    return _cached_reason(why, model.view.name, next(full, shared[0][0]).view.name, kept.view.model)


def _soonest(model: ModelState, able: Sequence[BackendState]) -> BackendState | None:
    """Return a backend of the host reserved for the model, or else the first on a free host."""
    free = None
    for backend in able:
        if model.view.shares:
            found = [host.reservation for host in model.hosts_at(backend) if host.reservation]
            mine = bool(found) and all(each is model.reserved for each in found)
        else:
            reservation = backend.host.reservation
            found, mine = [reservation] if reservation else [], reservation is model.reserved
        if not found:
            free = free or backend
        elif mine:
            return backend
    return free


@lru_cache(maxsize=10_000)
def _cached_reason(why: WaitCause, model: str, host: str, other: str | None = None) -> Reason:
    """Return a cached reason without times: the same few are returned again and again."""
    return Reason(why=why, model=model, host=host, other=other)
