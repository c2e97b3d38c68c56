"""Small worlds for the planner's tests: a test states what matters, the rest is usual."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from math import inf

from queueing.core.jobs import Job, stand_in
from queueing.core.snapshot import (
    BackendView,
    Copy,
    HostView,
    ModelView,
    Reservation,
    Residency,
    Rules,
    Snapshot,
    Waiting,
)
from queueing.core.specs import Shares

NOW = 1000.0
GB = 1000
_ids = count(1)


def jobs(
    model: str, *ages_s: float, lane: str = "normal", suspect: bool = False
) -> tuple[Job, ...]:
    """Return waiting jobs of these ages, in this order."""
    return tuple(
        stand_in(next(_ids), model, NOW - age, lane=lane, suspect=suspect) for age in ages_s
    )


def queue(heads: tuple[Job, ...], *, more: int = 0, next_start_at: float | None = None) -> Waiting:
    """Return a queue of these heads and this many more behind them."""
    return Waiting(
        lane=heads[0].lane if heads else "normal",
        count=len(heads) + more,
        heads=heads,
        oldest_at=heads[0].queued_at if heads else NOW,
        next_start_at=next_start_at,
    )


def model(
    name: str,
    *waiting: Waiting,
    vram_mb: int = 12 * GB,
    on: tuple[str, ...] = ("b1",),
    parallel: int = 1,
    load_s: float = 30.0,
    service_s: float = 10.0,
    rate_per_s: float = 0.0,
    left_at: float = 0.0,
    load_after: float = 0.0,
    paused: bool = False,
    wanted_by_admin: tuple[str, ...] = (),
    shares: Mapping[str, Shares] | None = None,
    ahead_until: float = 0.0,
) -> ModelView:
    """Return a model; 12 GB unless said otherwise."""
    return ModelView(
        name=name,
        vram_mb=vram_mb,
        backends=on,
        parallel=parallel,
        load_s={"": load_s},
        service_s={"": service_s},
        rate_per_s=rate_per_s,
        left_at=left_at,
        load_after=load_after,
        paused=paused,
        waiting=waiting,
        wanted_by_admin=wanted_by_admin,
        shares=shares or {},
        ahead_until=ahead_until,
    )


def copy(
    name: str,
    backend: str = "b1",
    *,
    running: int = 0,
    residency: Residency = Residency.READY,
    vram_mb: int = 12 * GB,
    pinned: bool = False,
    ready_at: float = 0.0,
    ends_at: tuple[float, ...] = (),
    idle_since: float = 0.0,
    idle_unload_s: float = inf,
    shares: Shares = (),
) -> Copy:
    """Return a copy, long ready unless said otherwise."""
    return Copy(
        model=name,
        backend=backend,
        residency=residency,
        ready_at=ready_at,
        vram_mb=vram_mb,
        running=running,
        pinned=pinned,
        ends_at=ends_at,
        idle_since=idle_since,
        idle_unload_s=idle_unload_s,
        shares=shares,
    )


def host(name: str, usable_mb: int = 20 * GB, *, budget_mb: int | None = None) -> HostView:
    """Return a host of 20 GB unless said otherwise."""
    return HostView(name=name, usable_mb=usable_mb, budget_mb=budget_mb or usable_mb)


def world(
    *models: ModelView,
    copies: tuple[Copy, ...] = (),
    hosts: tuple[HostView, ...] = (),
    backends: tuple[BackendView, ...] = (),
    reservations: tuple[Reservation, ...] = (),
    lane_spent: Mapping[tuple[str, str], int] | None = None,
    rules: Rules | None = None,
    now: float = NOW,
) -> Snapshot:
    """Return a world; one host `h1` with one backend `b1` unless said otherwise."""
    views = backends or (BackendView(name="b1", host="h1"),)
    loads = {c.backend for c in copies if c.residency is not Residency.READY}
    busy = {
        view.name: sum(c.running for c in copies if c.backend == view.name)
        + (view.serial and view.name in loads)
        for view in views
    }
    return Snapshot(
        now=now,
        models={m.name: m for m in models},
        hosts={h.name: h for h in hosts or (host("h1"),)},
        backends={view.name: replace(view, busy=busy[view.name]) for view in views},
        copies=copies,
        reservations=reservations,
        lane_spent=lane_spent or {},
        rules=rules or Rules(),
    )
