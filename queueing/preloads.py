"""Preloads: an admin's wishes about what is kept in memory and what leaves it."""

from collections.abc import Sequence

from queueing.catalog import ModelSpec
from queueing.errors import Refused, Unavailable, UnknownModel
from queueing.fleet import Fleet
from queueing.loader import Loader
from queueing.world import Evict, Residency


class Preloads:
    """Pins and unpins models; the router loads what is pinned and not there."""

    def __init__(self, fleet: Fleet, loader: Loader) -> None:
        self._fleet = fleet
        self._loader = loader

    async def preload(self, model: str, host: str | None) -> str:
        """Pin a model, wait until it is loaded and return its backend.

        Raises `Refused` when it cannot be there, `BackendError` when its load failed; it is not
        pinned then. A cancelled caller leaves the pin. Idempotent.
        """
        spec = self._known(model)
        backend = self._place_for(spec, host)
        health = self._fleet.vitals.of(backend)
        if health.error is not None:  # None as well before the first look: then wait for it
            raise Unavailable(f"{backend} is down: {health.error}")
        self._fleet.pin(spec.name, backend)
        copy = self._fleet.copy(spec.name, backend)
        if copy is None or copy.residency is not Residency.READY:
            try:
                await self._loader.outcome(spec.name, backend)
            except Exception:
                self._fleet.unpin(spec.name, backend)
                raise
        return backend

    async def unload(self, model: str, host: str | None) -> Sequence[str]:
        """Unpin a model and unload it; return the backends it leaves. Raises `Refused`.

        Idle copies have left by then, busy ones start nothing more and leave when they are idle.
        """
        spec = self._known(model)
        leaving = []
        for backend in self._places(spec, host):
            self._fleet.unpin(spec.name, backend)
            copy = self._fleet.copy(spec.name, backend)
            if copy is None or copy.residency is not Residency.READY:
                continue
            leaving.append(backend)
            if self._fleet.may_leave(copy):
                await self._loader.leave(Evict(model=spec.name, backend=backend))
            else:
                self._fleet.drain(spec.name, backend)
        return leaving

    def _known(self, model: str) -> ModelSpec:
        spec = self._fleet.catalog.find(model)
        if spec is None:
            raise UnknownModel(model, self._fleet.catalog.nearest(model))
        return spec

    def _places(self, spec: ModelSpec, host: str | None) -> list[str]:
        host_of = self._fleet.catalog.host_of
        places = [b for b in self._fleet.serving(spec) if host in {None, host_of[b]}]
        if not places:
            raise Refused(f"{spec.name} cannot run on {host or 'any host'}")
        return places

    def _place_for(self, spec: ModelSpec, host: str | None) -> str:
        """Return where to preload: where it is already, else the first backend that is up."""
        places = self._places(spec, host)
        here = {copy.backend for copy in self._fleet.copies_of(spec.name)}
        up = [name for name in places if self._fleet.vitals.of(name).up]
        return next((name for name in places if name in here), (up or places)[0])
