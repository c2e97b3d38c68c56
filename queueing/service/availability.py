"""Availability: whether a model can serve without making other jobs wait for its load.

Reads the fleet and changes nothing.
"""

from collections.abc import Collection

from queueing.core.catalog import ModelSpec
from queueing.core.snapshot import Residency
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.fleet.learned_times import Times


def is_at_hand(
    fleet: Fleet,
    times: Times,
    spec: ModelSpec,
    *,
    beside: ModelSpec,
    wanted: Collection[str],
    within_s: float,
    now: float,
) -> bool:
    """Return whether a model can answer a question asked on behalf of a job of `beside`.

    It can if it is in memory or on its way there, or if it fits without evicting anything: beside
    all copies of a host and beside every model that still has to be loaded there, `beside` and the
    `wanted` ones included. A host has one loader, so if one of those is waiting for it, this load
    must also finish within `within_s` seconds.
    """
    if fleet.rests.paused.stops_model(spec.name):
        return False
    up = [name for name in fleet.serving(spec) if _is_open(fleet, name)]
    copies = [copy for copy in fleet.copies_of(spec.name) if copy.backend in up]
    if any(copy.residency is not Residency.UNLOADING for copy in copies):
        return True
    if copies or fleet.load_failures.of(spec.name).until > now:
        return False  # it is being unloaded, or pauses after a failed load
    awaited = [fleet.catalog.models[name] for name in {*wanted, beside.name} - {spec.name}]
    awaited = [model for model in awaited if not fleet.copies_of(model.name)]
    return any(
        _fits(fleet, spec, name, awaited, is_quick=times.load_s(spec.name, name) <= within_s)
        for name in up
    )


def _is_open(fleet: Fleet, backend: str) -> bool:
    hosts = fleet.catalog.hosts_of[backend]
    stopped = any(fleet.rests.paused.stops_host(h) or fleet.rests.why(h) is not None for h in hosts)
    return fleet.health.of(backend).up and not stopped


def _fits(
    fleet: Fleet, spec: ModelSpec, backend: str, awaited: Collection[ModelSpec], *, is_quick: bool
) -> bool:
    server = fleet.catalog.backends[backend]
    if server.max_models is not None and server.max_models <= sum(
        copy.backend == backend and copy.vram_mb > 0 for copy in fleet.copies
    ):
        return False
    return all(
        _fits_on(fleet, host, needed_mb, awaited, is_quick=is_quick)
        for host, needed_mb in _needs(fleet, spec, backend).items()
    )


def _fits_on(
    fleet: Fleet, host: str, needed_mb: int, awaited: Collection[ModelSpec], *, is_quick: bool
) -> bool:
    coming = [
        max(places)
        for model in awaited
        if (
            places := [
                n[host] for b in fleet.serving(model) if host in (n := _needs(fleet, model, b))
            ]
        )
    ]
    if coming and not is_quick:
        return False
    return fleet.memory.mb_on(host) + sum(coming) + needed_mb <= fleet.memory.usable_mb(host)


def _needs(fleet: Fleet, spec: ModelSpec, backend: str) -> dict[str, int]:
    """Return what a copy would take there, by host."""
    shares = fleet.memory.shares(spec, backend)
    return dict(shares) or {fleet.catalog.host_of[backend]: fleet.memory.vram_mb(spec)}
