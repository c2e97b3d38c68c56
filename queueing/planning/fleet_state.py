"""The mutable copy of a snapshot on which a plan, or a forecast of many plans, is made.

It tracks what has been assigned, so that no slot, loader or megabyte is used twice. All changes of
copies happen here: loads, starts, ends and unloads. Only this package and the forecast use it. Work
that would not end before a host's quiet hours does not start there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf

from queueing.core.jobs import Job
from queueing.core.snapshot import (
    BackendView,
    Copy,
    Evict,
    EvictionCause,
    Load,
    ModelView,
    Reservation,
    Residency,
    Snapshot,
    Start,
)
from queueing.planning.hosts import next_change_at, rests
from queueing.planning.lanes import Spent, lanes_of
from queueing.planning.states import BackendState, CopyState, HostState, ModelState, Opening


class FleetState:
    """The mutable state of one decision; its lists become the plan.

    Decisions are applied to it at once. A forecast adds what happens until the next decision, and
    continues from the same object.
    """

    def __init__(self, snapshot: Snapshot, *, conversations: bool = True) -> None:
        self.conversations = conversations  # whether they return to the copy that remembers them
        self.called_back = False  # whether one returned
        self.rules = snapshot.rules
        self.job_s = snapshot.job_s
        self.now = snapshot.now
        self.hosts = {name: HostState(view) for name, view in snapshot.hosts.items()}
        self.quiet = [
            host
            for host in self.hosts.values()
            if host.view.quiet or host.view.waking_until is not None
        ]
        self.lent = [  # hosts that their owners may want back
            host
            for host in self.hosts.values()
            if host.view.quiet or host.view.yields_since is not None
        ]
        self.backends = self._backends(snapshot.backends)
        self.models = {
            name: ModelState(
                view,
                order,
                lanes_of(view, view.waiting, snapshot.lane_spent, snapshot.rules.lane_weights),
            )
            for order, (name, view) in enumerate(snapshot.models.items())
        }
        self.copies: dict[tuple[str, str], CopyState] = {}  # by model and backend
        self.preloads = any(model.view.wanted_by_admin for model in self.models.values())
        self.doubles = 0  # copies on a host that has another of the same model
        for copy in snapshot.copies:
            self._add_copy(copy)
        self._begin(snapshot.now, snapshot.reservations)

    def _begin(self, now: float, reservations: tuple[Reservation, ...]) -> None:
        """Prepare a decision; `reservations` are those of the last one."""
        self.now = now
        if self.quiet:
            self._note_rests()
        self.reservations = reservations
        self.waiting = [model for model in self.models.values() if model.lanes]
        self.asking = self.waiting if not self.preloads else self._models_to_place()
        self.starts: list[Start] = []
        self.loads: list[Load] = []
        self.evictions: list[Evict] = []
        self.look_at: float | None = None
        self.openings: list[Opening] | None = None  # cache of `eviction.openings`
        self.crowded_limit_s: float | None = None  # cache of `reservations.crowded_limit_s`
        self.giving_way: list[CopyState] = []  # closed by `replicas.give_way`
        for host in self.quiet:
            self.look(next_change_at(host.view, now))
        for model in self.waiting:
            for lane in model.lanes:
                if lane.view.next_start_at is not None:
                    self.look(lane.view.next_start_at)

    def _models_to_place(self) -> list[ModelState]:
        """Return the models for which jobs wait, or which an admin wants loaded."""
        return [
            model for model in self.models.values() if model.lanes or model.view.wanted_by_admin
        ]

    def _note_rests(self) -> None:
        """Update which hosts rest, and until when the others are open."""
        for host in self.quiet:
            resting = rests(host.view, self.now)
            host.closes_at = self.now if resting else next_change_at(host.view, self.now)
            for backend in host.backends:
                usable = backend.open and not self._rests(backend)
                if backend.usable is not usable:
                    backend.usable = usable
                    self.openings = None
                    for model in self.models.values():
                        model.candidates = None

    def again(self, now: float) -> None:
        """Prepare the next decision, at `now`, from the state reached by then."""
        left = self.kept()
        for host in self.hosts.values():
            host.spare_mb = None
            if host.reservation is not None:
                self.models[host.reservation.model].reserved = None
                host.reservation = None
                for copy in host.copies:
                    copy.cutoff = None
        for backend in self.backends.values():
            backend.waits_for = None
        for copy in self.giving_way:
            copy.cutoff = None
        self._begin(now, left)

    def kept(self) -> tuple[Reservation, ...]:
        """Return the reservations of this decision, without duplicates."""
        return tuple(
            [
                host.reservation
                for name, host in self.hosts.items()
                if host.reservation is not None and host.reservation.host == name
            ]
        )

    def _backends(self, views: Mapping[str, BackendView]) -> dict[str, BackendState]:
        states: dict[str, BackendState] = {}
        for order, (name, view) in enumerate(views.items()):
            host = self.hosts[view.host]
            hosts = (host,) if not view.hosts else tuple([self.hosts[each] for each in view.hosts])
            states[name] = BackendState(view, host, order, view.busy, view.alone, hosts)
            states[name].usable = states[name].open and not self._rests(states[name])
            for each in hosts:
                each.backends.append(states[name])
        return states

    def _rests(self, backend: BackendState) -> bool:
        """Return whether any host of a backend rests now."""
        if len(backend.hosts) == 1:  # the common case, without the cost of a generator
            return rests(backend.host.view, self.now)
        return any(rests(host.view, self.now) for host in backend.hosts)

    def _add_copy(self, copy: Copy) -> None:
        backend = self.backends[copy.backend]
        model = self.models.get(copy.model)
        if model is None:  # not in the snapshot: the copy only takes memory
            view = ModelView(name=copy.model, vram_mb=copy.vram_mb, backends=(copy.backend,))
            model = self.models[copy.model] = ModelState(view, len(self.models), [])
        hosts: tuple[HostState, ...] = (backend.host,)
        on: dict[str, int] | None = None
        if copy.shares:
            on = dict(copy.shares)
            hosts = tuple([self.hosts[name] for name in on])
        state = CopyState(copy, backend, model, copy.residency, copy.running, hosts, on)
        state.idle_at = copy.idle_since + copy.idle_unload_s
        self.copies[copy.model, copy.backend] = state
        self._note_doubles(model, hosts, 1)
        model.copies.append(state)
        backend.copies.append(state)
        for host in hosts:
            host.copies.append(state)
            host.used_mb += copy.vram_mb if on is None else on[host.view.name]
            host.running += copy.running
            if copy.residency is Residency.LOADING:
                host.loading = state

    def changed(self, host: HostState) -> None:
        """Clear cached results for a host, after a copy or a reservation came or went."""
        host.spare_mb = host.held = None
        self.openings = None

    def look(self, moment: float) -> None:
        """Request another decision at a moment at which the plan may change without an event."""
        if moment > self.now and (self.look_at is None or moment < self.look_at):
            self.look_at = moment

    def start(self, job: Job, copy: CopyState) -> None:
        """Record the start of a job on a copy."""
        copy.begin()
        copy.backend.alone = copy.backend.alone or job.suspect
        self.starts.append(Start(job=job, backend=copy.backend.view.name))

    def load(
        self,
        model: ModelState,
        backend: BackendState,
        victims: Iterable[CopyState],
        *,
        ahead: bool = False,
    ) -> None:
        """Load a model on a backend after unloading these idle copies from its hosts."""
        evict = tuple(self._take_out(copy) for copy in victims)
        name = backend.view.name
        shares = model.view.shares.get(name, ())
        for host in backend.hosts:
            self.changed(host)
        self.loads.append(Load(model=model.view.name, backend=name, evict=evict, ahead=ahead))
        self._add_copy(
            Copy(
                model=model.view.name,
                backend=name,
                residency=Residency.LOADING,
                ready_at=self.now + model.load_s(name),
                vram_mb=model.view.vram_mb,
                shares=shares,
                ahead=ahead,
            )
        )
        backend.busy += backend.view.serial

    def snapshot(self, origin: Snapshot, spent: Spent) -> Snapshot:
        """Return a snapshot of the present state, for the next decision."""
        return replace(
            origin,
            now=self.now,
            models={name: self.models[name].shown() for name in origin.models},
            backends={
                name: replace(backend.view, busy=backend.busy, alone=backend.alone)
                for name, backend in self.backends.items()
            },
            copies=tuple(copy.shown() for copy in self.copies.values()),
            reservations=self.reservations,
            lane_spent=spent,
        )

    def dissolve(self) -> None:
        """Break reference cycles, so that memory is freed without the garbage collector."""
        for host in self.hosts.values():
            for copy in host.copies:
                copy.model.copies.clear()
            for backend in host.backends:
                backend.copies.clear()
            host.copies.clear()
            host.backends.clear()
            host.loading = host.held = None
        self.copies.clear()

    def evict(self, copies: Iterable[CopyState], why: EvictionCause) -> None:
        """Unload idle copies without loading anything in their place."""
        for copy in copies:
            self.evictions.append(self._take_out(copy, why))

    def _take_out(self, copy: CopyState, why: EvictionCause = EvictionCause.ROOM) -> Evict:
        self._forget(copy)
        return Evict(model=copy.view.model, backend=copy.view.backend, why=why)

    def leave(self, copy: CopyState) -> None:
        """Complete the unload of a copy."""
        copy.backend.busy = max(
            0, copy.backend.busy - copy.running
        )  # it was waiting for these jobs to end
        self._forget(copy)
        copy.backend.note_rest()

    def _forget(self, copy: CopyState) -> None:
        del self.copies[copy.view.model, copy.view.backend]
        copy.model.copies.remove(copy)
        copy.backend.copies.remove(copy)
        for host in copy.hosts:
            host.copies.remove(copy)
            host.used_mb -= copy.mb_on(host)
            host.running -= copy.running
            self.changed(host)
        self._note_doubles(copy.model, copy.hosts, -1)

    def _note_doubles(self, model: ModelState, hosts: Iterable[HostState], change: int) -> None:
        """Count copies on hosts that have another of the same model."""
        if not model.copies:
            return
        for host in hosts:
            if any(host in other.hosts for other in model.copies):
                host.doubles += change
                self.doubles += change


HALF, QUARTER = 0.5, 0.25


def has_time(state: FleetState, copy: CopyState, job: Job, now: float | None = None) -> bool:
    """Return whether a job that starts now on a ready copy ends before the host's quiet hours."""
    host = _soonest(copy.backend) if copy.backend.view.hosts else copy.backend.host
    if host.closes_at == inf:
        return True
    backend = copy.backend.view.name
    needed_s = state.job_s.get((job.id, backend), copy.model.service_s(backend))
    at = state.now if now is None else now
    return _fits(at, host, needed_s, _whole_s(copy.model, backend), QUARTER)


def has_time_to_load(state: FleetState, model: ModelState, backend: BackendState) -> bool:
    """Return whether a load and a usual job after it would end before the host's quiet hours."""
    host = _soonest(backend) if backend.view.hosts else backend.host
    if host.closes_at == inf:
        return True
    whole_s = _whole_s(model, backend.view.name)
    return _fits(state.now, host, whole_s, whole_s, HALF)


def _soonest(backend: BackendState) -> HostState:
    """Return the backend's host that closes first."""
    return min(backend.hosts, key=lambda host: host.closes_at)


def _whole_s(model: ModelState, backend: str) -> float:
    return model.load_s(backend) + model.service_s(backend)


def _fits(now: float, host: HostState, needed_s: float, whole_s: float, share: float) -> bool:
    """Whether enough time is left before the host closes.

    A job that takes longer than the host is ever open would never start. For it, `share` of the
    longest open time is enough: it runs into the quiet hours, but starts long before them.
    """
    left_s, longest_s = host.closes_at - now, host.view.longest_open_s
    return needed_s <= left_s or (whole_s > longest_s and left_s >= share * longest_s)
