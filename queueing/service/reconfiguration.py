"""Switches a running queue to other models, hosts and servers without losing jobs.

Additions take effect at once. Removed servers take no more work, and are closed once their jobs
have ended and their memory is free.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from queueing.core.catalog import Catalog
from queueing.core.concurrency import timeout
from queueing.core.errors import BackendError, StoreError
from queueing.core.ports import Backend
from queueing.core.snapshot import Residency, Rules
from queueing.core.specs import BackendSpec, HostSpec, ModelSpec
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.loader import UNLOAD_S
from queueing.service.assembly import Engine, Given
from queueing.service.queue_status import LocalQueueStatus

if TYPE_CHECKING:
    from queueing.core.status import QuarterUse

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class _Leaving:
    """A replaced server, to be closed once these jobs and loads have ended."""

    name: str
    server: Backend
    jobs: frozenset[int]
    moving: frozenset[tuple[str, float]]  # copies being loaded or unloaded, and since when
    idle: tuple[ModelSpec, ...]  # models in its memory that will not be used again


class Reconfiguration:
    """Replaces the catalog of a running queue; `run` closes what was removed."""

    def __init__(self, given: Given, engine: Engine, status: LocalQueueStatus) -> None:
        self._engine = engine
        self._store = given.store
        self._status = status
        self._backends = given.backends
        self._changed = given.bus.fleet_changed
        # Removed, and still in use:
        self._kept: dict[str, tuple[Sequence[HostSpec], BackendSpec]] = {}
        self._leaving: list[_Leaving] = []
        self._unsettled = False  # whether something must still be closed
        self._look = asyncio.Event()
        engine.processor.attempt_ended = self.look

    def look(self) -> None:
        """Check soon whether something can be closed. Cheap and idempotent."""
        if self._unsettled:
            self._look.set()

    def apply(self, catalog: Catalog, made: Mapping[str, Backend], rules: Rules) -> None:
        """Switch to another catalog and other rules.

        `made` are the servers that are new or were configured differently; they have been checked.
        """
        engine, before = self._engine, self._engine.fleet.catalog
        self._keep_what_works(before, catalog)
        moved = {name for name in made if _is_moved(name, before, catalog)}
        self._replace(made, moved)
        found = self._still_found(catalog, made)
        whole = Catalog((*catalog.models.values(), *found), catalog.hosts.values())
        retired = {**before.retired, **before.models}.values()
        engine.fleet.adopt(self._with_kept(whole, retired), moved)
        pin_configured(engine.fleet)
        engine.times.forget_tables()
        engine.snapshots.follow(rules)
        engine.fair.follow(rules)
        self._status.weigh(rules.lane_weights)
        engine.health.follow(made)
        engine.router.reconsider()
        self._changed()
        self._unsettled = True
        self._look.set()

    async def run(self) -> None:
        """Close servers that are no longer needed, until cancelled.

        Also starts the fair order when the rules ask for it.
        """
        while True:
            await self._look.wait()
            self._look.clear()
            if self._engine.fair.is_wanted and not self._engine.fair.is_on:
                await self._order_fairly()
            unfit = self._engine.fleet.copies.expel()
            for name in [name for name in self._kept if not self._is_at_work(name)]:
                await self._drop(name)
            for each in [each for each in self._leaving if self._has_ended(each)]:
                self._leaving.remove(each)
                await _close(each)
            self._unsettled = bool(unfit or self._kept or self._leaving)

    async def _order_fairly(self) -> None:
        """Order the queues by each person's recent usage."""
        used: Sequence[QuarterUse] = ()
        try:
            used = await self._store.gpu_quarters(0.0)
        except StoreError as error:
            log.warning("cannot read recent GPU usage, counting from now: %s", error)
        running = [slot.job for slot in self._engine.fleet.jobs.slots.values()]
        self._engine.fair.begin(used, running)
        self._engine.router.reconsider()

    # ------------------------------------------------------------ what is gone

    def _keep_what_works(self, before: Catalog, after: Catalog) -> None:
        """Record which servers were removed; each may still be in use."""
        for name, spec in before.backends.items():
            if name not in after.backends:
                hosts = [before.hosts[host] for host in before.hosts_of[name]]
                self._kept.setdefault(name, (hosts, spec))
        for name in after.backends:
            self._kept.pop(name, None)  # it was added again

    def _with_kept(self, catalog: Catalog, retired: Collection[ModelSpec]) -> Catalog:
        hosts = dict(catalog.hosts)
        for old_hosts, spec in self._kept.values():
            for old_host in old_hosts:
                host = hosts.get(old_host.name) or replace(old_host, backends=())
                hosts[host.name] = replace(host, backends=(*host.backends, spec))
        return Catalog(catalog.models.values(), hosts.values(), retired)

    def _is_at_work(self, name: str) -> bool:
        fleet, processor = self._engine.fleet, self._engine.processor
        return bool(processor.at(name)) or any(copy.backend == name for copy in fleet.copies)

    async def _drop(self, name: str) -> None:
        fleet = self._engine.fleet
        del self._kept[name]
        server = self._backends.pop(name)
        known = fleet.catalog
        hosts = (
            replace(host, backends=tuple(each for each in host.backends if each.name != name))
            for host in known.hosts.values()
        )
        left = [host for host in hosts if host.backends]
        fleet.adopt(Catalog(known.models.values(), left, known.retired.values()), ())
        self._engine.health.follow()
        self._engine.router.reconsider()
        self._changed()
        log.info("%s is no longer used", name)
        await server.aclose()

    # ------------------------------------------------------------ what is replaced

    def _replace(self, made: Mapping[str, Backend], moved: Collection[str]) -> None:
        fleet = self._engine.fleet
        for name, server in made.items():
            old = self._backends.get(name)
            if old is not None:
                copies = [copy for copy in fleet.copies if copy.backend == name]
                idle = [
                    fleet.copies.loaded_as(copy.model, name)
                    for copy in copies
                    if name in moved and copy.residency is Residency.READY
                ]
                moving = {
                    (copy.model, copy.ready_at)
                    for copy in copies
                    if copy.residency is not Residency.READY
                }
                at_work = self._engine.processor.at(name)
                self._leaving.append(_Leaving(name, old, at_work, frozenset(moving), tuple(idle)))
            self._backends[name] = server

    def _has_ended(self, each: _Leaving) -> bool:
        fleet, processor = self._engine.fleet, self._engine.processor
        moving = {
            (copy.model, copy.ready_at)
            for copy in fleet.copies
            if copy.backend == each.name and copy.residency is not Residency.READY
        }
        return each.jobs.isdisjoint(processor.under_way) and each.moving.isdisjoint(moving)

    # ------------------------------------------------------------ what was discovered

    def _still_found(self, catalog: Catalog, made: Mapping[str, Backend]) -> list[ModelSpec]:
        """Return the discovered models that servers still offer."""
        found: list[ModelSpec] = []
        for spec in self._engine.fleet.catalog.models.values():
            left = [b for b in spec.backends if _discovers(catalog, b) and b not in made]
            if spec.discovered and left and catalog.find(spec.name) is None:
                found.append(replace(spec, backends=tuple(left)))
        return found


def _discovers(catalog: Catalog, backend: str) -> bool:
    return backend in catalog.backends and catalog.backends[backend].discover


def _is_moved(name: str, before: Catalog, after: Catalog) -> bool:
    """Return whether a backend now refers to another server, or to another host."""
    old, new = before.backends.get(name), after.backends[name]
    if old is None or (old.url, old.kind) != (new.url, new.kind):
        return True
    return before.hosts_of[name] != after.hosts_of[name]


async def _close(each: _Leaving) -> None:
    """Unload the models that no job will use, and close the server's connections."""
    for spec in each.idle if each.server.can_unload else ():
        try:
            async with timeout(UNLOAD_S):
                await each.server.unload(spec)
        except (BackendError, TimeoutError) as error:
            log.info("the replaced server %s did not unload %s: %s", each.name, spec.name, error)
    await each.server.aclose()


def pin_configured(fleet: Fleet) -> None:
    """Pin every model with `preload: true` somewhere, unless an admin has done so already."""
    pinned = {model for model, _ in fleet.copies.pins}
    for spec in fleet.catalog.models.values():
        backends = fleet.serving(spec)
        if spec.preload and backends and spec.name not in pinned:
            fleet.copies.pins.add(spec.name, backends[0])
