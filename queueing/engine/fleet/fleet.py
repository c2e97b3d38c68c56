"""Fleet: what is loaded, what runs and which servers are up. In memory only.

The loader, the job runner and the health checker change it, and the scheduler reads it in a
`Snapshot`. It never calls a server or the store.
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
    """Creates the parts of the fleet and answers which backends can serve a model.

    Calls `changed` after every change.
    """

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
        """Use another catalog with the same hosts and additional models."""
        self.catalog = catalog
        for part in (self.memory, self.rests, self.jobs, self.copies):
            part.catalog = catalog

    def adopt(self, catalog: Catalog, moved: Collection[str]) -> None:
        """Switch to a reloaded catalog. Running jobs finish; copies that do not fit are unloaded.

        `moved` are the backends that now point to another server. Their idle copies are forgotten.
        """
        self.know(catalog)
        self.health.know(catalog.backends.values(), moved)
        self.load_failures.forget()
        self.memory.forget()
        self.copies.adopt(moved)

    # ------------------------------------------------------------ who can serve what

    def spec(self, model: str, backend: str) -> ModelSpec:
        """Return a model for its server, with `preload` set if it is pinned there."""
        spec = self.catalog.spec_of(model)
        pinned = (model, backend) in self.copies.pins
        return spec if pinned == spec.preload else replace(spec, preload=pinned)

    def serving(self, spec: ModelSpec) -> tuple[str, ...]:
        """Return the backends that can serve a model, in order of the configuration."""
        known, unable = self._backends, self.load_failures.unable_now()
        there = tuple([name for name in spec.backends if name in known])
        if not unable:  # the usual case, on a hot path
            return there
        return tuple([name for name in there if (spec.name, name) not in unable])

    def can_ever_serve(self, spec: ModelSpec) -> bool:
        """Return whether some configured host could run a model if it were up and empty.

        A server that offloads can run models larger than its GPU.
        """
        return any(
            self.catalog.backends[name].offloads or self.catalog.fits(spec, name)
            for name in self.serving(spec)
        )

    def _may_sleep(self, backend: str) -> bool:
        return self.catalog.hosts[self.catalog.host_of[backend]].wake is not None
