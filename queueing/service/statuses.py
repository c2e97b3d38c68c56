"""Copies, servers and hosts of a fleet as people see them; functions that change nothing."""

from queueing.core.standings import BackendStatus, CopyStatus, HostStatus
from queueing.engine.fleet import Fleet


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
            kind=spec.kind,
            url=spec.url,
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
            usable_mb=fleet.usable_mb(host.name),
            used_mb=sum(copy.vram_mb for copy in fleet.copies_on(host.name)),
            paused=fleet.paused.stops_host(host.name),
            foreign_mb=fleet.budget.foreign_mb(host.name),
            budget_mb=host.usable_mb,
            rest=fleet.why_rests(host.name),
            awake_until=fleet.awake_until(host.name),
        )
        for host in fleet.catalog.hosts.values()
    )
