"""The board: the world as one plan changes it while it decides.

It counts what the plan has already given away, so that no slot, loader or megabyte is used twice.
A board never outlives its plan and nothing outside this package sees one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from queueing.core.jobs import Job
from queueing.core.world import (
    BackendView,
    Copy,
    Evict,
    HostView,
    Load,
    ModelView,
    Reservation,
    Residency,
    Start,
    World,
)
from queueing.planning.lanes import LaneState, lanes_of

DEFAULT_LOAD_S = 30.0
DEFAULT_SERVICE_S = 15.0


@dataclass(frozen=True, slots=True)
class Gate:
    """Rule R4's gate on a copy.

    Until `ends_at` only jobs that arrived by `arrived_by` may start, and none after it.
    """

    model: str  # for whom the copy is being emptied
    arrived_by: float
    ends_at: float

    def admits(self, job: Job, now: float) -> bool:
        """Tell whether the job may still start behind this gate."""
        return now < self.ends_at and job.queued_at <= self.arrived_by


@dataclass(slots=True, eq=False)
class HostState:
    """A host, what its copies take and for whom it is reserved."""

    view: HostView
    backends: list["BackendState"] = field(default_factory=list)
    copies: list["CopyState"] = field(default_factory=list)
    used_mb: int = 0
    loading: "CopyState | None" = None  # its one loader is busy with this copy
    reservation: Reservation | None = None
    running: int = 0
    spare_mb: int | None = None  # found by `room.spare_mb`, until a copy comes or goes


@dataclass(slots=True, eq=False)
class BackendState:
    """A backend and how much of it is taken."""

    view: BackendView
    host: HostState
    order: int
    busy: int
    alone: bool
    copies: list["CopyState"] = field(default_factory=list)
    usable: bool = True  # whether work may be given to it at all
    waits_for: str | None = None  # a suspect job of this model waits until nothing runs here

    @property
    def occupied(self) -> bool:
        """Whether a load would have to wait: a serial backend does one thing at a time."""
        if self.alone or self.waits_for is not None:
            return True
        if not self.view.serial:
            return False
        return self.busy > 0 or any(c.residency is not Residency.READY for c in self.copies)


@dataclass(slots=True, eq=False)
class CopyState:
    """A copy; `gate` closes it to late jobs while it must leave."""

    view: Copy
    backend: BackendState
    model: "ModelState"
    residency: Residency
    running: int
    gate: Gate | None = None

    @property
    def serves(self) -> bool:
        """Whether it runs jobs now or will: ready or loading on a usable backend."""
        return self.residency is not Residency.UNLOADING and self.backend.usable

    @property
    def free(self) -> bool:
        """Whether it could start a job now, gates aside."""
        backend = self.backend
        return (
            self.residency is Residency.READY
            and self.running < self.model.view.parallel
            and backend.usable
            and not backend.alone
            and backend.waits_for is None
            and backend.busy < backend.view.parallel
            and not (backend.view.serial and backend.occupied)
        )


@dataclass(frozen=True, slots=True)
class Opening:
    """A backend that could load now for anybody, and how much memory it could offer at most."""

    backend: BackendState
    room_mb: int
    all_may_leave: bool  # whether a model larger than the host could have it alone

    def takes(self, model: ModelView) -> bool:
        """Tell whether the model may fit: a bound to save the search where it is hopeless."""
        larger = model.vram_mb >= self.backend.host.view.budget_mb
        return self.all_may_leave if larger else model.vram_mb <= self.room_mb


@dataclass(slots=True, eq=False)
class ModelState:
    """A model, its waiting lanes and its copies."""

    view: ModelView
    order: int
    lanes: list[LaneState]
    copies: list[CopyState] = field(default_factory=list)
    reserved: Reservation | None = None
    oldest_at: float | None = None  # when its oldest startable job arrived, None without one
    candidates: "list[BackendState] | None" = None  # found by `room.candidates`
    due: float = inf  # found by `placing.wanted`

    def __post_init__(self) -> None:
        """Find the oldest job."""
        if self.lanes:
            self.note_oldest()

    def note_oldest(self) -> None:
        """Find the oldest of the known jobs again, after one has been taken.

        It need not be a head: `/move` puts a young one first, the others stay as old as they are.
        """
        oldest_at = None
        for lane in self.lanes:
            for job in lane.heads[lane.taken :]:
                if oldest_at is None or job.queued_at < oldest_at:
                    oldest_at = job.queued_at
        self.oldest_at = oldest_at

    @property
    def waiting(self) -> int:
        """How many jobs wait after what this plan starts."""
        jobs = 0
        for lane in self.lanes:
            jobs += lane.view.count - lane.taken
        return jobs

    @property
    def served(self) -> bool:
        """Whether a copy is ready or on its way."""
        for copy in self.copies:
            if copy.residency is not Residency.UNLOADING and copy.backend.usable:
                return True
        return False

    def load_s(self, backend: str) -> float:
        """Return the expected duration of a load there."""
        times = self.view.load_s
        return times.get(backend, times.get("", DEFAULT_LOAD_S))

    def service_s(self, backend: str) -> float:
        """Return the expected duration of a usual job there."""
        times = self.view.service_s
        return times.get(backend, times.get("", DEFAULT_SERVICE_S))

    @property
    def usual_service_s(self) -> float:
        """The duration of a usual job before it is known where."""
        times = self.view.service_s
        return times[""] if "" in times else min(times.values(), default=DEFAULT_SERVICE_S)

    @property
    def usual_load_s(self) -> float:
        """The duration of a load before it is known where."""
        times = self.view.load_s
        return times[""] if "" in times else min(times.values(), default=DEFAULT_LOAD_S)


class Board:
    """The mutable state of one decision; its lists become the plan."""

    def __init__(self, world: World, *, conversations: bool = True) -> None:
        self.world = world
        self.conversations = conversations  # whether they go back to where they are remembered
        self.called_back = False  # whether one did
        self.now = world.now
        self.rules = world.rules
        self.hosts = {name: HostState(view) for name, view in world.hosts.items()}
        self.backends = self._backends(world.backends)
        self.models = {
            name: ModelState(
                view, order, lanes_of(view, world.lane_spent, world.rules.lane_weights)
            )
            for order, (name, view) in enumerate(world.models.items())
        }
        for copy in world.copies:
            self._put(copy)
        self.starts: list[Start] = []
        self.loads: list[Load] = []
        self.evictions: list[Evict] = []
        self.look_at: float | None = None
        self.openings: list[Opening] | None = None  # found by `room.openings`
        self.crowding: float | None = None  # found by `gates.age_limit_s`
        for state in self.models.values():
            for lane in state.lanes:
                if lane.view.next_start_at is not None:
                    self.look(lane.view.next_start_at)

    def _backends(self, views: Mapping[str, BackendView]) -> dict[str, BackendState]:
        states: dict[str, BackendState] = {}
        for order, (name, view) in enumerate(views.items()):
            host = self.hosts[view.host]
            usable = view.up and not view.paused and not host.view.paused
            states[name] = BackendState(view, host, order, view.busy, view.alone, usable=usable)
            host.backends.append(states[name])
        return states

    def _put(self, copy: Copy) -> None:
        backend = self.backends[copy.backend]
        model = self.models.get(copy.model)
        if model is None:  # a copy of a model nobody asked about: it only takes memory
            view = ModelView(name=copy.model, vram_mb=copy.vram_mb, backends=(copy.backend,))
            model = self.models[copy.model] = ModelState(view, len(self.models), [])
        state = CopyState(copy, backend, model, copy.residency, copy.running)
        model.copies.append(state)
        backend.copies.append(state)
        backend.host.copies.append(state)
        backend.host.used_mb += copy.vram_mb
        backend.host.running += copy.running
        if copy.residency is Residency.LOADING:
            backend.host.loading = state

    def changed(self, host: HostState) -> None:
        """Forget what was found out about a host: a copy or a reservation came or went."""
        host.spare_mb = None
        self.openings = None

    def look(self, moment: float) -> None:
        """Note a moment at which time alone may change the answer."""
        if moment > self.now and (self.look_at is None or moment < self.look_at):
            self.look_at = moment

    def start(self, job: Job, copy: CopyState) -> None:
        """Start a job on a copy."""
        copy.running += 1
        copy.backend.busy += 1
        copy.backend.host.running += 1
        copy.backend.alone = copy.backend.alone or job.suspect
        self.starts.append(Start(job=job, backend=copy.backend.view.name))

    def load(self, model: ModelState, backend: BackendState, victims: Iterable[CopyState]) -> None:
        """Load a model on a backend after these idle copies of its host have left."""
        evict = tuple(self._take_out(copy) for copy in victims)
        name = backend.view.name
        self.changed(backend.host)
        self.loads.append(Load(model=model.view.name, backend=name, evict=evict))
        self._put(
            Copy(
                model=model.view.name,
                backend=name,
                residency=Residency.LOADING,
                ready_at=self.now + model.load_s(name),
                vram_mb=model.view.vram_mb,
            )
        )

    def dissolve(self) -> None:
        """Cut the ties in circles, at the end: else each board would wait for the garbage collector."""
        for host in self.hosts.values():
            for copy in host.copies:
                copy.model.copies.clear()
            for backend in host.backends:
                backend.copies.clear()
            host.copies.clear()
            host.backends.clear()
            host.loading = None

    def evict(self, copies: Iterable[CopyState]) -> None:
        """Unload idle copies without loading anything (memory pressure)."""
        for copy in copies:
            self.evictions.append(self._take_out(copy))

    def _take_out(self, copy: CopyState) -> Evict:
        copy.model.copies.remove(copy)
        copy.backend.copies.remove(copy)
        copy.backend.host.copies.remove(copy)
        copy.backend.host.used_mb -= copy.view.vram_mb
        self.changed(copy.backend.host)
        return Evict(model=copy.view.model, backend=copy.view.backend)
