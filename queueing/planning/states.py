"""The mutable state of a decision: hosts, backends, copies and models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from queueing.core.jobs import Job
from queueing.core.snapshot import BackendView, Copy, HostView, ModelView, Reservation, Residency
from queueing.planning.lanes import LaneState

DEFAULT_LOAD_S = 30.0
DEFAULT_SERVICE_S = 15.0


@dataclass(frozen=True, slots=True)
class Cutoff:
    """Rule R4's limit on which jobs may start on a copy that must leave.

    Until `ends_at`, only jobs that arrived by `arrived_by` may start. After that, none may.
    """

    model: str  # the model for which the copy must leave
    arrived_by: float
    ends_at: float

    def admits(self, job: Job, now: float) -> bool:
        """Return whether the cutoff lets the job start."""
        return now < self.ends_at and job.queued_at <= self.arrived_by


@dataclass(slots=True, eq=False)
class HostState:
    """A host, the memory of its copies and the model it is reserved for."""

    view: HostView
    backends: list["BackendState"] = field(default_factory=list)
    copies: list["CopyState"] = field(default_factory=list)
    used_mb: int = 0
    loading: "CopyState | None" = None  # the copy that its one loader is loading
    reservation: Reservation | None = None
    running: int = 0
    spare_mb: int | None = None  # cache of `eviction.spare_mb` until a copy comes or goes
    held: "HeldReservation | None" = None  # its last reservation, until a copy comes or goes
    closes_at: float = inf  # running jobs must have ended by then
    doubles: int = 0  # copies beyond the first of each model

    @property
    def may_load(self) -> bool:
        """Whether its loader is free, and it is not reserved."""
        return self.loading is None and self.reservation is None


@dataclass(slots=True, eq=False)
class BackendState:
    """A backend and how much of it is in use."""

    view: BackendView
    host: HostState
    order: int
    busy: int
    alone: bool
    hosts: "tuple[HostState, ...]"  # all its GPUs; `host` is the first
    copies: list["CopyState"] = field(default_factory=list)
    usable: bool = True  # whether it may get work at all
    waits_for: str | None = None  # a suspect job of this model waits until nothing runs here

    @property
    def open(self) -> bool:
        """Whether it can take jobs while its host does not rest."""
        if not self.view.up or self.view.paused:
            return False
        return not any(host.view.paused for host in self.hosts)

    @property
    def may_load(self) -> bool:
        """Whether any of its GPUs could load now."""
        if self.view.hosts:
            return any(host.may_load for host in self.hosts)
        return self.host.loading is None and self.host.reservation is None

    @property
    def occupied(self) -> bool:
        """Whether a load would have to wait: a serial backend does one thing at a time."""
        if self.alone or self.waits_for is not None:
            return True
        if not self.view.serial:
            return False
        return self.busy > 0 or any(c.residency is not Residency.READY for c in self.copies)

    def note_rest(self) -> None:
        """Free a serial backend once the last of its copies has finished loading or unloading."""
        self.alone = False
        if self.view.serial and all(copy.residency is Residency.READY for copy in self.copies):
            self.busy = max(0, self.busy - 1)


@dataclass(slots=True, eq=False)
class CopyState:
    """A copy; `cutoff` keeps later jobs from starting on it while it must leave.

    `idle_at` is when it will have reached its idle limit. `on` is the MB it takes on each of its
    `hosts`, None if it has one host.
    """

    view: Copy
    backend: BackendState
    model: "ModelState"
    residency: Residency
    running: int
    hosts: tuple[HostState, ...]
    on: Mapping[str, int] | None = None
    cutoff: Cutoff | None = None
    idle_at: float = inf

    def mb_on(self, host: HostState) -> int:
        """Return the MB it takes on a host."""
        if self.on is None:
            return self.view.vram_mb if host is self.hosts[0] else 0
        return self.on.get(host.view.name, 0)

    @property
    def serves(self) -> bool:
        """Whether it runs jobs now or will: ready or loading on a usable backend."""
        return self.residency is not Residency.UNLOADING and self.backend.usable

    @property
    def free(self) -> bool:
        """Whether it could start a job now, apart from its cutoff."""
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

    def begin(self) -> None:
        """Record the start of a job."""
        self.running += 1
        self.idle_at = inf
        self.backend.busy += 1
        for host in self.hosts:
            host.running += 1

    def end(self) -> None:
        """Record the end of a job."""
        self.running -= 1
        self.backend.busy = max(0, self.backend.busy - 1)
        self.backend.alone = False
        for host in self.hosts:
            host.running -= 1

    def arrive(self) -> None:
        """Record the end of its load."""
        self.residency = Residency.READY
        for host in self.hosts:
            rest = [other for other in host.copies if other.residency is Residency.LOADING]
            host.loading = rest[-1] if rest else None
        self.backend.note_rest()

    def shown(self) -> Copy:
        """Return its present state as a `Copy` for the planner."""
        return replace(
            self.view,
            residency=self.residency,
            running=self.running,
            idle_unload_s=inf if self.idle_at == inf else self.view.idle_unload_s,
        )


@dataclass(frozen=True, slots=True)
class Eviction:
    """A way to make a model fit on a backend: the copies that must leave, and the cost.

    `hosts` are the GPUs the model will use.
    """

    backend: BackendState
    victims: tuple[CopyState, ...]
    cost: float  # expected seconds of waiting for reloads, per second
    hosts: tuple[HostState, ...]


@dataclass(frozen=True, slots=True)
class HeldReservation:
    """A reservation, the space it makes and the cutoffs it sets."""

    reservation: Reservation
    space: Eviction
    cutoffs: tuple[tuple[CopyState, Cutoff], ...]


@dataclass(frozen=True, slots=True)
class Opening:
    """A backend that could load now, and the most memory it could offer.

    For a backend with several GPUs, `gpus` are those that could load now.
    """

    backend: BackendState
    host: HostState
    room_mb: int
    all_may_leave: bool  # whether a model larger than the host could have it alone
    gpus: "Mapping[str, Opening] | None" = None

    def takes(self, model: ModelView) -> bool:
        """Return whether the model may fit; it may be true although it does not."""
        if self.gpus is None:  # inlined from `has_room` for speed
            larger = model.vram_mb >= self.host.view.budget_mb
            return self.all_may_leave if larger else model.vram_mb <= self.room_mb
        shares = model.shares.get(self.backend.view.name)
        return shares is not None and all(
            host in self.gpus and self.gpus[host].has_room(mb) for host, mb in shares
        )

    def has_room(self, needed_mb: int) -> bool:
        """Return whether that many MB may fit on its host."""
        larger = needed_mb >= self.host.view.budget_mb
        return self.all_may_leave if larger else needed_mb <= self.room_mb


@dataclass(slots=True, eq=False)
class ModelState:
    """A model, its waiting lanes and its copies."""

    view: ModelView
    order: int
    lanes: list[LaneState]
    copies: list[CopyState] = field(default_factory=list)
    reserved: Reservation | None = None
    oldest_at: float | None = None  # when its oldest startable job arrived, None without one
    waiting: int = 0  # how many jobs wait after the starts of this plan
    left_at: float = 0.0  # its last eviction anywhere
    usual_service_s: float = 0.0  # of a job, while its backend is unknown; likewise for loads
    usual_load_s: float = 0.0
    load_work_s: float = 0.0  # job seconds that a copy could work during a load
    candidates: "list[BackendState] | None" = None  # cache of `eviction.candidates`
    spans: bool = False  # whether it uses several GPUs at once on any backend
    due: float = inf  # set by `placement.place_all`

    def __post_init__(self) -> None:
        """Count the waiting jobs, and find the oldest one and the usual times."""
        self.left_at = self.view.left_at
        self.usual_service_s = _usual_s(self.view.service_s, DEFAULT_SERVICE_S)
        self.usual_load_s = _usual_s(self.view.load_s, DEFAULT_LOAD_S)
        self.load_work_s = self.usual_load_s * self.view.parallel
        if self.view.shares:
            self.spans = any(len(shares) > 1 for shares in self.view.shares.values())
        if self.lanes:
            self.note_lanes()

    def note_lanes(self) -> None:
        """Count the waiting jobs in its lanes, and find the oldest."""
        jobs = 0
        for lane in self.lanes:
            jobs += lane.view.count - lane.taken
        self.waiting = jobs
        self.note_oldest()

    def note_oldest(self) -> None:
        """Find the oldest of the known jobs, after one has been taken.

        It need not be a head: `/move` puts a new job first, and the others keep their age.
        """
        oldest_at = None
        for lane in self.lanes:
            for job in lane.heads[lane.taken :]:
                if oldest_at is None or job.queued_at < oldest_at:
                    oldest_at = job.queued_at
        self.oldest_at = oldest_at

    def needs(self, backend: BackendState) -> "Sequence[tuple[HostState, int]]":
        """Return the MB a copy would take there, by host."""
        if not self.view.shares or backend.view.name not in self.view.shares:
            return ((backend.host, self.view.vram_mb),)
        by_name = {host.view.name: host for host in backend.hosts}
        return [(by_name[name], mb) for name, mb in self.view.shares[backend.view.name]]

    def hosts_at(self, backend: BackendState) -> tuple[HostState, ...]:
        """Return the hosts a copy would use there."""
        if len(backend.hosts) == 1:
            return backend.hosts
        return tuple([host for host, _ in self.needs(backend)])

    @property
    def has_slot(self) -> bool:
        """Whether any copy runs fewer jobs than it could."""
        return bool(self.copies) and min([c.running for c in self.copies]) < self.view.parallel

    @property
    def served(self) -> bool:
        """Whether a copy is ready or on its way."""
        for copy in self.copies:
            if copy.residency is not Residency.UNLOADING and copy.backend.usable:
                return True
        return False

    def shown(self) -> ModelView:
        """Return its present state as a `ModelView` for the planner."""
        waiting = tuple([lane.view for lane in self.lanes])
        return replace(self.view, left_at=self.left_at, waiting=waiting)

    def load_s(self, backend: str) -> float:
        """Return the expected duration of a load there."""
        times = self.view.load_s
        return times.get(backend, times.get("", DEFAULT_LOAD_S))

    def service_s(self, backend: str) -> float:
        """Return the expected duration of a usual job there."""
        return typical_s(self.view, backend)


def typical_s(model: ModelView, backend: str) -> float:
    """Return the average seconds of a job of a model there."""
    return model.service_s.get(backend, model.service_s.get("", DEFAULT_SERVICE_S))


def _usual_s(times: Mapping[str, float], default: float) -> float:
    return times[""] if "" in times else min(times.values(), default=default)
