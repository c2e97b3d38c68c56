"""Preloads: the models that admins keep in memory or unload."""

from collections.abc import Sequence

from queueing.core.errors import (
    BackendError,
    BadModel,
    OutOfMemory,
    ProblemKind,
    Refused,
    ShortOfMemory,
    Unavailable,
    problem,
)
from queueing.core.snapshot import Evict, EvictionCause, Reason, Residency
from queueing.core.specs import ModelSpec, together
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.health_checker import HealthChecker
from queueing.engine.loader import Loader
from queueing.engine.scheduler import Scheduler
from queueing.engine.snapshot_builder import SnapshotBuilder
from queueing.planning.planner import preload_waits_for


class Preloader:
    """Pins and unpins models. The scheduler loads pinned models that are not in memory."""

    def __init__(
        self,
        *,
        fleet: Fleet,
        loader: Loader,
        router: Scheduler,
        snapshots: SnapshotBuilder,
        health: HealthChecker,
    ) -> None:
        self._fleet = fleet
        self._loader = loader
        self._router = router
        self._snapshots = snapshots
        self._looked = health.first_looked

    async def waits_for(self, model: str, host: str | None) -> Reason | None:
        """Return what delays a preload, or None if nothing does or the model is loaded.

        Returns None right after the start, until all servers have been checked. Raises `Refused` as
        `preload` does, and `StoreError`.
        """
        spec = self._fleet.catalog.named(model)
        if not self._looked.is_set():
            return None
        backend = self._place_for(spec, host)
        copy = self._fleet.copies.get(spec.name, backend)
        if copy is not None and copy.residency is not Residency.UNLOADING:
            return None
        snapshot = await self._snapshots.with_preload(self._router.plan, spec.name, backend)
        return preload_waits_for(snapshot, spec.name)

    async def preload(self, model: str, host: str | None) -> str:
        """Pin a model, wait until it is loaded and return its backend. Idempotent.

        Right after the start, first waits until all servers have been checked. Cancelling the
        caller leaves the model pinned.

        Raises `Refused` if the model cannot be loaded there or somebody unloads it during the load,
        and `BackendError` if the load fails. A failed load removes the pin, and the error carries
        the problem to show to an admin.
        """
        spec = self._fleet.catalog.named(model)
        await self._looked.wait()
        backend = self._place_for(spec, host)
        if not self._fleet.health.of(backend).up:
            why = problem(ProblemKind.NO_ANSWER, backend=backend)
            raise Unavailable(f"{backend} does not answer", problem=why)
        self._fleet.copies.pins.add(spec.name, backend)
        self._fleet.copies.wanted(spec.name, backend)
        copy = self._fleet.copies.get(spec.name, backend)
        if copy is None or copy.residency is not Residency.READY:
            try:
                await self._loader.outcome(spec.name, backend)
            except Refused:
                raise  # another admin unloaded the model, which removed the pin
            except Exception as error:
                self._fleet.copies.pins.discard(spec.name, backend)
                gpus = together(self._fleet.catalog.gpus_of(spec.name, backend))
                raise _failure(spec, backend, gpus, error) from error
        return backend

    async def unload(self, model: str, host: str | None) -> Sequence[str]:
        """Unpin a model and unload it. Returns the backends it leaves. Raises `Refused`.

        Idle copies are unloaded on return. Busy copies start no further jobs and unload once idle;
        copies that are still loading unload once loaded. Right after the start, first waits until
        all servers have been checked.
        """
        spec = self._fleet.catalog.named(model)
        await self._looked.wait()
        leaving = []
        for backend in self._places(spec, host):
            self._fleet.copies.pins.discard(spec.name, backend)
            self._loader.give_up(spec.name, backend, _refused(ProblemKind.OTHER_WISH))
            copy = self._fleet.copies.get(spec.name, backend)
            if copy is None or copy.residency is Residency.UNLOADING:
                continue
            leaving.append(backend)
            if copy.residency is Residency.LOADING:
                self._fleet.copies.unwanted(spec.name, backend)
            elif self._fleet.copies.may_leave(copy):
                await self._loader.leave(
                    Evict(model=spec.name, backend=backend, why=EvictionCause.ADMIN)
                )
            else:
                self._fleet.copies.drain(spec.name, backend)
        return leaving

    def _places(self, spec: ModelSpec, host: str | None) -> list[str]:
        catalog = self._fleet.catalog
        named = None if host is None else set(catalog.gpus(host))
        places = [
            name
            for name in self._fleet.serving(spec)
            if named is None or not named.isdisjoint(catalog.parts_of(spec, name))
        ]
        if not places:
            if host is None:
                raise _refused(ProblemKind.NOWHERE, model=spec.name)
            raise _refused(ProblemKind.NOT_THERE, model=spec.name, host=host)
        return places

    def _place_for(self, spec: ModelSpec, host: str | None) -> str:
        """Return the backend that has the model, otherwise the first one that is up."""
        places = self._running(spec, self._places(spec, host))
        here = {copy.backend for copy in self._fleet.copies.of(spec.name)}
        up = [name for name in places if self._fleet.health.of(name).up]
        return next((name for name in places if name in here), (up or places)[0])

    def _running(self, spec: ModelSpec, places: list[str]) -> list[str]:
        """Return the backends that are not paused. Raises `Refused` if all are."""
        paused, hosts_of = self._fleet.rests.paused, self._fleet.catalog.hosts_of
        if paused.stops_model(spec.name):
            if paused.everything:
                raise _refused(ProblemKind.ALL_PAUSED)
            raise _refused(ProblemKind.PAUSED, names=spec.name)
        running = [
            name for name in places if not any(paused.stops_host(each) for each in hosts_of[name])
        ]
        if not running:
            stopped = (each for name in places for each in hosts_of[name])
            hosts = dict.fromkeys(each for each in stopped if paused.stops_host(each))
            raise _refused(ProblemKind.PAUSED, names=", ".join(hosts))
        return running


def _refused(what: ProblemKind, **values: str) -> Refused:
    why = problem(what, **values)
    return Refused(str(why), problem=why)


def _failure(spec: ModelSpec, backend: str, gpus: str, error: Exception) -> BackendError:
    """Convert the failure of a load into one to show to an admin. The loader logs the cause."""
    cause = str(error).partition("\n")[0]
    match error:
        case TimeoutError():
            late = problem(
                ProblemKind.LOAD_LATE, backend=backend, seconds=f"{spec.timeouts.load_s:g}"
            )
            return Unavailable(f"{backend} did not load it in time", problem=late)
        case OutOfMemory() | ShortOfMemory():
            return OutOfMemory(cause, problem=problem(ProblemKind.FULL, host=gpus))
        case Unavailable():
            return Unavailable(cause, problem=problem(ProblemKind.LOAD_STOPPED, backend=backend))
        case BadModel():
            return BadModel(cause, problem=problem(ProblemKind.LOAD_SETUP, cause=cause))
        case BackendError():
            return BackendError(cause, problem=problem(ProblemKind.LOAD_REFUSED, backend=backend))
        case _:
            return BackendError(cause, problem=problem(ProblemKind.BUG))
