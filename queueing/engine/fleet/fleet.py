"""Fleet: the parts that know what is in which memory, what runs there and which servers work.

Memory only, changed by the loader, the job runner and the health checker; the router reads it as part
of a `Snapshot`. It never calls a server or the store.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from queueing.core.catalog import Catalog
from queueing.core.ports import Backend, Clock
from queueing.core.specs import ModelSpec
from queueing.engine.fleet.copies import Copies
from queueing.engine.fleet.health import BackendHealth, LoadFailures
from queueing.engine.fleet.host_availability import HostAvailability
from queueing.engine.fleet.host_memory import HostMemory
from queueing.engine.fleet.running_jobs import RunningJobs


class Fleet:
    """Makes the parts and tells who can serve what; `changed` is called after every change."""

    def __init__(
        self,
        catalog: Catalog,
        backends: Mapping[str, Backend],
        clock: Clock,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.catalog = catalog
        self._backends = backends
        self.health = BackendHealth(catalog.backends.values(), clock, changed)
        self.health.may_sleep = self._may_sleep
        self.load_failures = LoadFailures(clock, changed)
        self.memory = HostMemory(catalog, backends, serving=self.serving, changed=changed)
        self.rests = HostAvailability(catalog, self.memory, clock, changed)
        self.jobs = RunningJobs(catalog, clock, changed)
        self.copies = Copies(
            catalog,
            backends,
            clock,
            memory=self.memory,
            jobs=self.jobs,
            load_failures=self.load_failures,
            changed=changed,
        )
        self.memory.copies_on, self.memory.resized = self.copies.on, self.copies.fit_again
        self.jobs.shown, self.jobs.ended = self.copies.look_again, self.copies.used

    # ------------------------------------------------------------ another catalog

    def know(self, catalog: Catalog) -> None:
        """Look things up in another catalog from now on: one with the same hosts and further models."""
        self.catalog = catalog
        for part in (self.memory, self.rests, self.jobs, self.copies):
            part.catalog = catalog

    def adopt(self, catalog: Catalog, moved: Collection[str]) -> None:
        """Go on with another catalog; jobs run to their ends, and what no longer fits leaves.

        `moved` are the backends that are another server now: what they held idle is out of sight.
        """
        self.know(catalog)
        self.health.know(catalog.backends.values(), moved)
        self.load_failures.forget()
        self.memory.forget()
        self.copies.adopt(moved)

    # ------------------------------------------------------------ who can serve what

    def spec(self, model: str, backend: str) -> ModelSpec:
        """Return a model for its server, with `preload` where an admin wants it kept there."""
        spec = self.catalog.spec_of(model)
        pinned = (model, backend) in self.copies.pins
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

    def _may_sleep(self, backend: str) -> bool:
        return self.catalog.hosts[self.catalog.host_of[backend]].wake is not None
