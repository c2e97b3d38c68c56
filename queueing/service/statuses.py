"""Copies, servers and hosts of a fleet as people see them; functions that change nothing."""

from collections.abc import Sequence

from queueing.core.snapshot import Blocked, Reason, Residency
from queueing.core.status import BackendStatus, CopyStatus, HostStatus, Readiness
from queueing.engine.fleet.fleet import Fleet

WAITS_FOR_MEMORY = frozenset(
    {
        Blocked.LOADING,
        Blocked.ROOM_BUSY,
        Blocked.LOADER_BUSY,
        Blocked.RESERVED,
        Blocked.NO_ROOM,
        Blocked.PINNED,
        Blocked.KEPT,
        Blocked.LOAD_PAUSE,
    }
)


def readiness(there: Sequence[CopyStatus], reason: Reason | None) -> Readiness:
    """Return whether a model can begin a job, from its copies and from why its jobs wait."""
    places = {copy.residency for copy in there}
    if Residency.READY in places:
        return Readiness.READY
    waits = reason is not None and reason.why in WAITS_FOR_MEMORY
    return Readiness.NEEDS_LOADING if waits or Residency.LOADING in places else Readiness.ABSENT


def copies(fleet: Fleet, model: str) -> tuple[CopyStatus, ...]:
    """Return the status of every copy of a model."""
    return tuple(
        CopyStatus(
            backend=copy.backend,
            host=fleet.catalog.host_of[copy.backend],
            residency=copy.residency,
            pinned=copy.pinned,
            running=copy.running,
            vram_mb=copy.vram_mb,
            ready_at=copy.ready_at,
            shares=copy.shares,
        )
        for copy in fleet.copies_of(model)
    )


def backends(fleet: Fleet) -> tuple[BackendStatus, ...]:
    """Return the status of every backend, in the configuration's order."""
    catalog = fleet.catalog
    return tuple(
        BackendStatus(
            name=name,
            host=catalog.host_of[name],
            hosts=catalog.hosts_of[name],
            kind=spec.kind,
            url=spec.address,
            up=(health := fleet.health.of(name)).up,
            since=health.since,
            description=health.description,
            error=health.error,
        )
        for name, spec in catalog.backends.items()
    )


def hosts(fleet: Fleet) -> tuple[HostStatus, ...]:
    """Return the status of every host, in the configuration's order."""
    return tuple(
        HostStatus(
            name=host.name,
            vram_mb=host.vram_mb,
            usable_mb=fleet.memory.usable_mb(host.name),
            used_mb=fleet.memory.mb_on(host.name),
            paused=fleet.rests.paused.stops_host(host.name),
            foreign_mb=fleet.memory.budget.foreign_mb(host.name),
            budget_mb=host.usable_mb,
            unmeasured_since=fleet.memory.budget.unmeasured_since(host.name),
            rest=fleet.rests.why(host.name),
            awake_until=fleet.rests.awake_until(host.name),
        )
        for host in fleet.catalog.hosts.values()
    )
