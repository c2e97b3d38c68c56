"""The copies of models in memory, and which of them may be unloaded. Unloads nothing itself."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

from queueing.core.catalog import Catalog
from queueing.core.constructors import altering
from queueing.core.ports import Backend, Clock
from queueing.core.snapshot import Copy, Residency
from queueing.core.specs import ModelSpec
from queueing.engine.fleet.health import LoadFailures
from queueing.engine.fleet.host_memory import HostMemory
from queueing.engine.fleet.pins import Pins, Place
from queueing.engine.fleet.running_jobs import RunningJobs

_altered = altering(Copy)


@dataclass(eq=False, repr=False)
class Copies:
    """Tracks the copies of models. Calls `changed` whenever one changes.

    A draining copy is unloaded once it runs nothing, or once its load ends.
    """

    catalog: Catalog
    backends: Mapping[str, Backend]
    clock: Clock
    _: KW_ONLY
    memory: HostMemory
    jobs: RunningJobs
    load_failures: LoadFailures
    changed: Callable[[], None]
    # by backend: incremented when its copies change
    epochs: Counter[str] = field(default_factory=Counter, init=False)
    unsaved: bool = field(default=False, init=False)  # changed since the last checkpoint
    _copies: dict[Place, Copy] = field(default_factory=dict, init=False)
    _loaded_as: dict[Place, ModelSpec] = field(default_factory=dict, init=False)
    _found: set[Place] = field(default_factory=set, init=False)
    _draining: set[Place] = field(default_factory=set, init=False)
    # cached until something changes
    _view: tuple[Copy, ...] | None = field(default=None, init=False)
    _left_at: dict[str, float] = field(default_factory=dict, init=False)
    _set_aside_at: dict[str, float] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.pins = Pins(self._copies, self._moved)

    # ------------------------------------------------------------ what there is

    @property
    def view(self) -> tuple[Copy, ...]:
        """All copies, with the jobs they are running."""
        if self._view is None:
            ends: dict[Place, list[float]] = {}
            for slot in self.jobs.slots.values():
                ends.setdefault((slot.job.model, slot.backend), []).append(slot.ends_at)
            self._view = tuple(
                _shown(copy, ends.get(key, ()), pinned=key in self.pins)
                for key, copy in self._copies.items()
            )
        return self._view

    def __iter__(self) -> Iterator[Copy]:
        """Yield all copies, with the jobs they are running."""
        return iter(self.view)

    def get(self, model: str, backend: str) -> Copy | None:
        """Return the copy of a model on a backend, or None."""
        return next((c for c in self.view if (c.model, c.backend) == (model, backend)), None)

    def of(self, model: str) -> tuple[Copy, ...]:
        """Return the copies of a model on all backends."""
        return tuple(copy for copy in self.view if copy.model == model)

    def on(self, host: str) -> tuple[Copy, ...]:
        """Return all copies in the memory of a host."""
        if self.catalog.has_gpus:
            return tuple([copy for copy in self.view if host in self.hosts_of(copy)])
        host_of = self.catalog.host_of
        return tuple([copy for copy in self.view if host_of[copy.backend] == host])

    def hosts_of(self, copy: Copy) -> tuple[str, ...]:
        """Return the hosts of a copy: several if it spans GPUs."""
        if copy.shares:
            return tuple([host for host, _ in copy.shares])
        return (self.catalog.host_of[copy.backend],)

    def loaded_as(self, model: str, backend: str) -> ModelSpec:
        """Return a model as it was when this copy was loaded; the catalog may have changed."""
        return self._loaded_as.get((model, backend)) or self.catalog.spec_of(model)

    def is_unused(self, copy: Copy) -> bool:
        """Return whether a copy was loaded in this run and has not run a job yet."""
        if copy.residency is not Residency.READY or copy.running:
            return False
        return copy.idle_since == copy.ready_at and (copy.model, copy.backend) not in self._found

    def left_at(self, model: str) -> float:
        """Return when a copy of a model last left the memory, 0 for never."""
        return self._left_at.get(model, 0.0)

    def set_aside_at(self, model: str) -> float:
        """Return when a model last had to stay out of memory until its next request, 0 for never."""
        return self._set_aside_at.get(model, 0.0)

    # ------------------------------------------------------------ what comes and goes

    def loading(
        self, spec: ModelSpec, backend: str, *, expected_s: float, ahead: bool = False
    ) -> None:
        """Record the start of a load. Its memory counts from now on."""
        ready_at = self.clock.now() + expected_s
        self._put(spec, backend, Residency.LOADING, ready_at=ready_at, ahead=ahead)

    def ready(self, spec: ModelSpec, backend: str) -> None:
        """Record that a copy is loaded and usable; mark it as unloading if it drains."""
        self.load_failures.worked(spec.name)
        self._put(spec, backend, Residency.READY, ready_at=self.clock.now())
        if (spec.name, backend) in self._draining:
            self.leaving(spec.name, backend)

    def found(self, spec: ModelSpec, backend: str) -> None:
        """Record a copy that a server already holds, or held when an earlier run ended."""
        self.ready(spec, backend)
        self._found.add((spec.name, backend))

    def leaving(self, model: str, backend: str) -> None:
        """Record that a copy is being unloaded. No job starts on it; its memory still counts."""
        copy = self._copies.get((model, backend))
        if copy is not None:
            self._copies[model, backend] = replace(copy, residency=Residency.UNLOADING)
            self._moved(backend)

    def drain(self, model: str, backend: str) -> None:
        """Start no more jobs on a copy. `take_drained` returns it once it is idle."""
        self._draining.add((model, backend))
        self.leaving(model, backend)

    def unwanted(self, model: str, backend: str) -> None:
        """Unload a copy as soon as its load ends."""
        self._draining.add((model, backend))

    def wanted(self, model: str, backend: str) -> None:
        """Keep a copy that is still loading, even after a call of `unwanted`."""
        copy = self.get(model, backend)
        if copy is not None and copy.residency is Residency.LOADING:
            self._draining.discard((model, backend))

    def lost(self, model: str, backend: str) -> None:
        """Record that a server reports not having a copy that was considered ready.

        The copy is drained and unloaded anyway, because it may be partly loaded.
        """
        copy = self._copies.get((model, backend))
        if copy is not None and copy.residency is Residency.READY:
            self.drain(model, backend)
            if (
                model,
                backend,
            ) not in self._found:  # a found copy did not fail to load
                self.load_failures.lost(model, copy.ready_at)

    def forget_idle(self, backend: str) -> None:
        """Forget the idle copies of a server that has been down for too long."""
        for copy in self.view:
            if copy.backend == backend and copy.residency is Residency.READY and not copy.running:
                self.gone(copy.model, backend)

    def gone(self, model: str, backend: str) -> None:
        """Record that a copy has left the memory. Idempotent."""
        copy = self._copies.pop((model, backend), None)
        self._draining.discard((model, backend))
        self._loaded_as.pop((model, backend), None)
        if copy is not None:
            if copy.residency is not Residency.LOADING:
                self._left_at[model] = self.clock.now()
            self._moved(backend)

    def set_aside(self, model: str) -> None:
        """Load a model no more before its next request. Idempotent."""
        self._set_aside_at[model] = self.clock.now()

    def dropped(self, model: str, backend: str) -> None:
        """Record that a server unloaded an idle copy by itself, without a restart.

        The server may have its own idle timeout, so a pinned model returns only with its next job.
        """
        self.pins.dropped((model, backend))
        self.gone(model, backend)

    def used(self, model: str, backend: str) -> None:
        """Record that a job on a copy has ended. The copy's idle time starts now."""
        copy = self._copies.get((model, backend))
        if copy is not None:
            self._copies[model, backend] = _altered(copy, idle_since=self.clock.now())

    def look_again(self) -> None:
        """Invalidate the view after the running jobs have changed."""
        self._view = None

    def _put(
        self,
        spec: ModelSpec,
        backend: str,
        residency: Residency,
        *,
        ready_at: float,
        ahead: bool = False,
    ) -> None:
        self._found.discard((spec.name, backend))
        self.pins.came((spec.name, backend))
        self._loaded_as[spec.name, backend] = spec
        self._copies[spec.name, backend] = Copy(
            model=spec.name,
            backend=backend,
            residency=residency,
            ready_at=ready_at,
            vram_mb=self.memory.vram_mb(spec),
            idle_since=self.clock.now(),
            idle_unload_s=self.catalog.idle_unload_s(spec.name, backend),
            shares=self.memory.shares(spec, backend),
            ahead=ahead,
        )
        self._moved(backend)

    def _moved(self, backend: str) -> None:
        self._view = None
        self.epochs[backend] += 1
        self.jobs.turned.add(backend)
        self.unsaved = True
        self.changed()

    # ------------------------------------------------------------ another catalog

    def adopt(self, moved: Collection[str]) -> None:
        """Drain copies that do not fit a reloaded catalog; forget idle ones of `moved` backends."""
        models = self.catalog.models
        self.pins.retain({(m, b) for m, b in self.pins if m in models and b in models[m].backends})
        for backend in moved:
            self.forget_idle(backend)
            for copy in self.view:
                if copy.backend == backend and copy.residency is Residency.READY:
                    self.drain(copy.model, backend)
        self.fit_again()
        self.expel()

    def fit_again(self) -> None:
        """Update each copy's memory and idle timeout from the catalog."""
        for key, copy in self._copies.items():
            spec = self.catalog.models.get(copy.model)
            if spec is not None:
                idle_s = self.catalog.idle_unload_s(*key)
                self._copies[key] = replace(
                    copy,
                    vram_mb=self.memory.vram_mb(spec),
                    shares=self.memory.shares(spec, copy.backend),
                    idle_unload_s=idle_s,
                )
                self._view = None  # the sizes of unmeasured copies depend on each other
        self._view, self.unsaved = None, True

    def expel(self) -> bool:
        """Drain every ready copy whose model, options or backend the catalog no longer has.

        Returns whether any such copies exist, including those being loaded or unloaded.
        """
        found = False
        for (model, backend), copy in tuple(self._copies.items()):
            spec, loaded = self.catalog.models.get(model), self._loaded_as[model, backend]
            fits = spec is not None and backend in spec.backends and spec.options == loaded.options
            found = found or not fits
            if copy.residency is Residency.READY and not fits:
                self.memory.budget.doubt(model)
                self.drain(model, backend)
        return found

    # ------------------------------------------------------------ what may leave

    def idle_on(self, host: str, *, pinned: bool = False) -> tuple[Copy, ...]:
        """Return the ready, idle copies of a host that may be unloaded.

        Includes pinned copies only if `pinned` is set.
        """
        return tuple(
            copy
            for copy in self.on(host)
            if copy.residency is Residency.READY
            and self.may_leave(copy)
            and (pinned or not any(other.pinned for other in self.leaving_with(copy)))
            and self.backends[copy.backend].can_unload
        )

    def leaving_with(self, copy: Copy) -> tuple[Copy, ...]:
        """Return the copies that unloading this one frees: some servers free all at once."""
        if not self.backends[copy.backend].unloads_together:
            return (copy,)
        return tuple(
            other
            for other in self.view
            if other.backend == copy.backend
            and (other.model == copy.model or other.residency is not Residency.LOADING)
            and (other.vram_mb or other.model == copy.model)
        )

    def may_leave(self, copy: Copy) -> bool:
        """Return whether unloading a copy would interrupt neither a job nor a load."""
        if not self.backends[copy.backend].unloads_together:
            return not copy.running
        return not any(
            other.running or (other.residency is Residency.LOADING and other.model != copy.model)
            for other in self.view
            if other.backend == copy.backend
        )

    def take_drained(self) -> tuple[Copy, ...]:
        """Return the drained copies that can be unloaded now, each only once."""
        drained = tuple(
            copy
            for copy in self.view
            if (copy.model, copy.backend) in self._draining
            and copy.residency is not Residency.LOADING
            and self.may_leave(copy)
        )
        self._draining -= {(copy.model, copy.backend) for copy in drained}
        return drained


def _shown(copy: Copy, ends: Sequence[float], *, pinned: bool) -> Copy:
    if not ends and not pinned:
        return copy
    return _altered(copy, running=len(ends), pinned=pinned, ends_at=tuple(ends))
