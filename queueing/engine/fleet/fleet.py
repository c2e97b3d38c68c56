"""Fleet: which models are in which memory, and the parts that know what belongs to it.

Those are what runs, how large models are, which hosts rest, what is pinned, what may leave, which
servers can be used and which loads failed. Memory only, changed by the loader, the job runner and the
health checker; the router reads it as part of a `Snapshot`. It never calls a server or the store.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from queueing.core.catalog import Catalog
from queueing.core.constructors import altering
from queueing.core.ports import Backend, Clock
from queueing.core.snapshot import Copy, Residency
from queueing.core.specs import ModelSpec
from queueing.engine.fleet.copies import Departures, Pins
from queueing.engine.fleet.health import BackendHealth, LoadFailures
from queueing.engine.fleet.host_availability import HostAvailability
from queueing.engine.fleet.host_memory import HostMemory
from queueing.engine.fleet.running_jobs import RunningJobs

_altered = altering(Copy)


class Fleet:
    """Keeps the copies, and its parts together; calls `changed` after every change."""

    def __init__(
        self,
        catalog: Catalog,
        backends: Mapping[str, Backend],
        clock: Clock,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.catalog = catalog
        self.health = BackendHealth(catalog.backends.values(), clock, changed)
        self.health.may_sleep = self._may_sleep
        self.load_failures = LoadFailures(clock, changed)
        self.epochs: Counter[str] = Counter()  # by backend: grows whenever its copies change
        self.copies_changed = False  # since the last checkpoint
        self.turned: set[str] = set()  # backends where a model began or ceased to run, or moved
        self._backends = backends
        self._clock = clock
        self._changed = changed
        self._copies: dict[tuple[str, str], Copy] = {}
        self._loaded_as: dict[tuple[str, str], ModelSpec] = {}
        self._found: set[tuple[str, str]] = set()
        self._view: tuple[Copy, ...] | None = None  # `copies`, until something changes
        self._left_at: dict[str, float] = {}
        self.memory = HostMemory(
            catalog,
            backends,
            serving=self.serving,
            copies_on=self.copies_on,
            changed=changed,
            resized=self._fit_again,
        )
        self.pins = Pins(self._copies, self._copies_moved)
        self.departures = Departures(backends, copies=lambda: self.copies, copies_on=self.copies_on)
        self.rests = HostAvailability(catalog, self.memory, clock, changed)
        self.jobs = RunningJobs(
            catalog,
            clock,
            turned=self.turned,
            shown=self._forget_view,
            ended=self._rests,
            changed=changed,
        )

    # ------------------------------------------------------------ another catalog

    def know(self, catalog: Catalog) -> None:
        """Look things up in another catalog from now on: one with the same hosts and further models."""
        self.catalog = self.memory.catalog = self.rests.catalog = self.jobs.catalog = catalog

    def adopt(self, catalog: Catalog, moved: Collection[str]) -> None:
        """Go on with another catalog; jobs run to their ends, and what no longer fits leaves.

        `moved` are the backends that are another server now: what they held idle is out of sight.
        """
        self.know(catalog)
        self.health.know(catalog.backends.values(), moved)
        self.load_failures.forget()
        self.memory.forget()
        self.pins.retain({(m, b) for m, b in self.pins if b in self._backends_of(m)})
        for backend in moved:
            self.forget_idle(backend)
            for copy in self.copies:
                if copy.backend == backend and copy.residency is Residency.READY:
                    self.drain(copy.model, backend)
        self._fit_again()
        self.expel()

    def _fit_again(self) -> None:
        """Update how much memory each copy takes and how long it may be idle."""
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
                self._view = None  # what those of unknown size take depends on the others
        self._view, self.copies_changed = None, True

    def expel(self) -> bool:
        """Drain every ready copy that the catalog no longer has in this form or place.

        Returns whether such copies are there, on their way in or out as well.
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

    def _backends_of(self, model: str) -> tuple[str, ...]:
        spec = self.catalog.models.get(model)
        return () if spec is None else spec.backends

    def loaded_as(self, model: str, backend: str) -> ModelSpec:
        """Return a model as it was when its copy there was loaded: it may have changed since."""
        return self._loaded_as.get((model, backend)) or self.catalog.spec_of(model)

    # ------------------------------------------------------------ copies

    @property
    def copies(self) -> tuple[Copy, ...]:
        """All copies, with what they run now."""
        if self._view is None:
            ends: dict[tuple[str, str], list[float]] = {}
            for slot in self.jobs.slots.values():
                ends.setdefault((slot.job.model, slot.backend), []).append(slot.ends_at)
            self._view = tuple(
                self._shown(copy, ends.get(key, ()), pinned=key in self.pins)
                for key, copy in self._copies.items()
            )
        return self._view

    @staticmethod
    def _shown(copy: Copy, ends: Sequence[float], *, pinned: bool) -> Copy:
        if not ends and not pinned:
            return copy
        return _altered(copy, running=len(ends), pinned=pinned, ends_at=tuple(ends))

    def copy(self, model: str, backend: str) -> Copy | None:
        """Return the copy of a model on a backend, or None."""
        return next((c for c in self.copies if (c.model, c.backend) == (model, backend)), None)

    def copies_of(self, model: str) -> tuple[Copy, ...]:
        """Return the copies of a model anywhere."""
        return tuple(copy for copy in self.copies if copy.model == model)

    def copies_on(self, host: str) -> tuple[Copy, ...]:
        """Return the copies of any model in the memory of a host."""
        if self.catalog.has_gpus:
            return tuple([copy for copy in self.copies if host in self.hosts_of(copy)])
        host_of = self.catalog.host_of
        return tuple([copy for copy in self.copies if host_of[copy.backend] == host])

    def hosts_of(self, copy: Copy) -> tuple[str, ...]:
        """Return the hosts a copy lies on: several where it spans GPUs."""
        if copy.shares:
            return tuple([host for host, _ in copy.shares])
        return (self.catalog.host_of[copy.backend],)

    def loading(self, spec: ModelSpec, backend: str, *, expected_s: float) -> None:
        """Note that a load begins; its memory counts from now on."""
        self._put(spec, backend, Residency.LOADING, ready_at=self._clock.now() + expected_s)

    def ready(self, spec: ModelSpec, backend: str) -> None:
        """Note that a copy has just been loaded and is usable, unless it is to leave again."""
        self.load_failures.worked(spec.name)
        self._put(spec, backend, Residency.READY, ready_at=self._clock.now())
        if (spec.name, backend) in self.departures.draining:
            self.leaving(spec.name, backend)

    def found(self, spec: ModelSpec, backend: str) -> None:
        """Note that a copy is in a server's memory, or was when an earlier run ended."""
        self.ready(spec, backend)
        self._found.add((spec.name, backend))

    def is_unused(self, copy: Copy) -> bool:
        """Return whether a copy was loaded in this run and nothing has begun on it since."""
        if copy.residency is not Residency.READY or copy.running:
            return False
        return copy.idle_since == copy.ready_at and (copy.model, copy.backend) not in self._found

    def leaving(self, model: str, backend: str) -> None:
        """Note that a copy is being unloaded; nothing starts on it, its memory still counts."""
        copy = self._copies.get((model, backend))
        if copy is not None:
            self._copies[model, backend] = replace(copy, residency=Residency.UNLOADING)
            self._copies_moved(backend)

    def drain(self, model: str, backend: str) -> None:
        """Start nothing more on a busy copy; it is `drained` once it runs nothing."""
        self.departures.draining.add((model, backend))
        self.leaving(model, backend)

    def unwanted(self, model: str, backend: str) -> None:
        """Let a copy that is being loaded leave as soon as it is."""
        self.departures.draining.add((model, backend))

    def wanted(self, model: str, backend: str) -> None:
        """Let a copy that is being loaded stay after all."""
        copy = self.copy(model, backend)
        if copy is not None and copy.residency is Residency.LOADING:
            self.departures.draining.discard((model, backend))

    def forget_idle(self, backend: str) -> None:
        """Note that what a server held idle is lost: it has been away too long."""
        for copy in self.copies:
            if copy.backend == backend and copy.residency is Residency.READY and not copy.running:
                self.gone(copy.model, backend)

    def gone(self, model: str, backend: str) -> None:
        """Note that a copy is no longer in memory. Idempotent."""
        copy = self._copies.pop((model, backend), None)
        self.departures.draining.discard((model, backend))
        self._loaded_as.pop((model, backend), None)
        if copy is not None:
            if copy.residency is not Residency.LOADING:
                self._left_at[model] = self._clock.now()
            self._copies_moved(backend)

    def dropped(self, model: str, backend: str) -> None:
        """Note that a server that was up all the while has unloaded an idle copy by itself.

        It has its reasons, such as a time-out of its own: a pinned one returns with the next job.
        """
        self.pins.dropped((model, backend))
        self.gone(model, backend)

    def _put(self, spec: ModelSpec, backend: str, residency: Residency, *, ready_at: float) -> None:
        self._found.discard((spec.name, backend))
        self.pins.came((spec.name, backend))
        self._loaded_as[spec.name, backend] = spec
        self._copies[spec.name, backend] = Copy(
            model=spec.name,
            backend=backend,
            residency=residency,
            ready_at=ready_at,
            vram_mb=self.memory.vram_mb(spec),
            idle_since=self._clock.now(),
            idle_unload_s=self.catalog.idle_unload_s(spec.name, backend),
            shares=self.memory.shares(spec, backend),
        )
        self._copies_moved(backend)

    def _rests(self, model: str, backend: str) -> None:
        """Note that a copy has just been used: from now on it may be idle."""
        copy = self._copies.get((model, backend))
        if copy is not None:
            self._copies[model, backend] = _altered(copy, idle_since=self._clock.now())

    def _forget_view(self) -> None:
        self._view = None

    def _copies_moved(self, backend: str) -> None:
        self._view = None
        self.epochs[backend] += 1
        self.turned.add(backend)
        self.copies_changed = True
        self._changed()

    # ------------------------------------------------------------ who can serve what

    def lost(self, model: str, backend: str) -> None:
        """Note that a server reports not holding a copy that was believed ready.

        It is unloaded all the same, because it may be half loaded.
        """
        copy = self._copies.get((model, backend))
        if copy is not None and copy.residency is Residency.READY:
            self.drain(model, backend)
            if (model, backend) not in self._found:  # otherwise no load of this run has failed
                self.load_failures.lost(model, copy.ready_at)

    def spec(self, model: str, backend: str) -> ModelSpec:
        """Return a model for its server, with `preload` where an admin wants it kept there."""
        spec = self.catalog.spec_of(model)
        pinned = (model, backend) in self.pins
        return spec if pinned == spec.preload else replace(spec, preload=pinned)

    def serving(self, spec: ModelSpec) -> tuple[str, ...]:
        """Return the backends that can serve a model, in the configuration's order."""
        known, unable = self._backends, self.load_failures.unable_now()
        there = tuple([name for name in spec.backends if name in known])
        if not unable:  # nearly always, and asked for every model at every step
            return there
        return tuple([name for name in there if (spec.name, name) not in unable])

    def can_ever_serve(self, spec: ModelSpec) -> bool:
        """Return whether any configured host could run a model if it were empty and up.

        A server that offloads can run one larger than its GPU.
        """
        return any(
            self.catalog.backends[name].offloads or self.catalog.fits(spec, name)
            for name in self.serving(spec)
        )

    def left_at(self, model: str) -> float:
        """Return when a model was last evicted anywhere, 0 for never."""
        return self._left_at.get(model, 0.0)

    def _may_sleep(self, backend: str) -> bool:
        return self.catalog.hosts[self.catalog.host_of[backend]].wake is not None
