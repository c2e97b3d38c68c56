"""Which hosts work now, which could serve a model, and which sleeping ones to wake; pure.

A resting host gets no work, and its idle copies are unloaded (`planner._clear_resting_hosts`),
except while it wakes.

A site is a server on which a model can start. Servers that are down or paused, or whose GPU another
program uses, count only if there are no others. A sleeping machine counts only if it would be woken
for the model.
"""

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from math import inf
from typing import NamedTuple

from queueing.core.snapshot import (
    BackendView,
    HostView,
    ModelView,
    Reason,
    Residency,
    Snapshot,
    WaitCause,
)

LEAD_S = 15.0  # a host is empty this long before its quiet hours, as unloading takes time


def rests(view: HostView, now: float) -> bool:
    """Return whether a host gets no work now: its owner wants the GPU, or it is waking."""
    if view.yields_since is not None or wakes(view, now):
        return True
    if not view.quiet:  # the common case, without the cost of a generator
        return False
    return any(quiet.begins_at - LEAD_S <= now < quiet.ends_at for quiet in view.quiet)


def wakes(view: HostView, now: float) -> bool:
    """Return whether a host has been sent a wake-up packet and is still waking."""
    return view.waking_until is not None and now < view.waking_until


def next_change_at(view: HostView, now: float) -> float:
    """Return when a host starts or stops resting by the clock, inf for never."""
    moments = [at for q in view.quiet for at in (q.begins_at - LEAD_S, q.ends_at) if at > now]
    if view.waking_until is not None and view.waking_until > now:
        moments.append(view.waking_until)
    return min(moments, default=inf)


def next_quiet(view: HostView, now: float) -> tuple[float, float] | None:
    """Return the start and end of the present or next quiet hours."""
    coming = (quiet for quiet in view.quiet if quiet.ends_at > now)
    first = min(coming, key=lambda quiet: quiet.begins_at, default=None)
    return None if first is None else (first.begins_at, first.ends_at)


def opens_for(view: HostView, at: float, needed_s: float) -> float | None:
    """Return the first time from `at` on when a host is open for `needed_s`; None if it yields."""
    if view.yields_since is not None:
        return None
    at = max(at, view.waking_until or at)
    for quiet in view.quiet:
        if at + needed_s <= quiet.begins_at - LEAD_S:
            break
        at = max(at, quiet.ends_at)
    return at


def why_rests(view: HostView, now: float, model: str = "") -> Reason | None:
    """Return why a host rests, None if it works."""
    if view.yields_since is not None:
        return Reason(why=WaitCause.YIELDING, model=model, host=view.name, since=view.yields_since)
    if wakes(view, now):
        machine = view.machine or view.name
        return Reason(why=WaitCause.WAKING, model=model, host=machine)
    if view.asleep and not view.overslept:
        return Reason(why=WaitCause.ASLEEP, model=model, host=view.machine or view.name)
    if not rests(view, now):
        return None
    quiet = next_quiet(view, now)
    until = None if quiet is None else quiet[1]
    return Reason(why=WaitCause.QUIET, model=model, host=view.name, until=until)


def hosts_of(view: BackendView) -> tuple[str, ...]:
    """Return all hosts of a backend."""
    return view.hosts or (view.host,)


def lies_on(snapshot: Snapshot, model: str, backend: str) -> tuple[str, ...]:
    """Return the hosts whose memory a model uses on a backend, as the snapshot shows them."""
    server, view = snapshot.backends[backend], snapshot.models.get(model)
    shares = None if view is None or not server.hosts else view.shares.get(backend)
    if shares is None:
        return hosts_of(server)
    return tuple([host for host, _ in shares])


def servers_on(snapshot: Snapshot, hosts: AbstractSet[str]) -> frozenset[str]:
    """Return the backends that use any of these hosts."""
    views = snapshot.backends.values()
    return frozenset([view.name for view in views if not hosts.isdisjoint(hosts_of(view))])


def waiting_on(snapshot: Snapshot, hosts: AbstractSet[str]) -> frozenset[str]:
    """Return the models with waiting jobs that could run on any of these hosts."""
    near = servers_on(snapshot, hosts) if hosts else frozenset()
    return frozenset(
        [
            name
            for name, view in snapshot.models.items()
            if view.waiting
            and not near.isdisjoint(view.backends)
            and (not view.shares or backends_on(snapshot, name, hosts))
        ]
    )


def backends_on(snapshot: Snapshot, model: str, hosts: Collection[str]) -> frozenset[str]:
    """Return the backends on which a model uses any of these hosts."""
    view = snapshot.models.get(model)
    names = () if view is None else view.backends
    found = [(name, snapshot.backends[name]) for name in names if name in snapshot.backends]
    return frozenset(
        [
            name
            for name, server in found
            if (server.host in hosts if not server.hosts else _any_of(snapshot, model, name, hosts))
        ]
    )


def _any_of(snapshot: Snapshot, model: str, backend: str, hosts: Collection[str]) -> bool:
    return any(host in hosts for host in lies_on(snapshot, model, backend))


class StartOption(NamedTuple):
    """A server and the hosts a copy of a model uses there.

    A copy can start there once none of these hosts is closed by quiet hours or sleep.
    """

    backend: str
    hosts: tuple[HostView, ...]


def fitting(snapshot: Snapshot, model: ModelView) -> Sequence[StartOption]:
    """Return where a model fits into empty memory; all of its servers if it fits on none."""
    known = [
        StartOption(
            name, tuple(snapshot.hosts[host] for host in lies_on(snapshot, model.name, name))
        )
        for name in model.backends
        if name in snapshot.backends
    ]
    return [
        site for site in known if all(mb <= h.budget_mb for h, mb in _needs(model, site))
    ] or known


def sites(snapshot: Snapshot, model: ModelView) -> Sequence[StartOption]:
    """Return where a model can start. If there is no such place, return everything it fits on."""
    places = fitting(snapshot, model)
    found = [site for site in places if _is_open(snapshot, model, site)]
    if all(any(rests(host, snapshot.now) for host in site.hosts) for site in found):
        found += [site for site in places if _would_be_woken(snapshot, site)]
    return found or places


def _needs(model: ModelView, site: StartOption) -> Sequence[tuple[HostView, int]]:
    shares = dict(model.shares.get(site.backend, ()))
    return [(host, shares.get(host.name, model.vram_mb)) for host in site.hosts]


def _is_open(snapshot: Snapshot, model: ModelView, site: StartOption) -> bool:
    """Whether it is up, or will be once its machine has woken; quiet hours do not count.

    A GPU counts as closed while other programs use too much of it, as that has no known end.
    """
    has_room = all(mb <= h.usable_mb or mb >= h.budget_mb for h, mb in _needs(model, site))
    return snapshot.backends[site.backend].up and has_room and _is_wanted(snapshot, site)


def _would_be_woken(snapshot: Snapshot, site: StartOption) -> bool:
    asleep = any(host.asleep and not host.overslept for host in site.hosts)
    return (
        asleep
        and _is_wanted(snapshot, site)
        and not any(rests(h, snapshot.now) for h in site.hosts)
    )


def _is_wanted(snapshot: Snapshot, site: StartOption) -> bool:
    """Whether neither an admin nor another program stops it from working."""
    return not snapshot.backends[site.backend].paused and all(
        not host.paused and host.yields_since is None for host in site.hosts
    )


def to_wake(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the hosts to wake: one for each waiting model that has no open or waking host.

    A machine that did not wake the last time is the last choice.
    """
    chosen = {
        host: None
        for model in snapshot.models.values()
        if any(queue.count for queue in model.waiting) and not model.paused
        if (host := _host_to_wake(snapshot, model)) is not None
    }
    return tuple(chosen)


def is_busy(snapshot: Snapshot, host: str) -> bool:
    """Return whether a host works, is kept ready by an admin, or has jobs waiting for it."""
    servers = {name for name, backend in snapshot.backends.items() if host in hosts_of(backend)}
    for copy in snapshot.copies:
        if copy.backend in servers and (
            copy.running or copy.pinned or copy.residency is not Residency.READY
        ):
            return True
    return any(
        not servers.isdisjoint(model.backends)
        and (model.wanted_by_admin or any(queue.count for queue in model.waiting))
        for model in snapshot.models.values()
    )


def _host_to_wake(snapshot: Snapshot, model: ModelView) -> str | None:
    asleep: list[tuple[bool, str]] = []
    for name, gpus in fitting(snapshot, model):
        backend = snapshot.backends[name]
        host = snapshot.hosts[backend.host]
        if backend.paused or any(gpu.paused for gpu in gpus):
            continue
        resting = any(rests(gpu, snapshot.now) for gpu in gpus)
        if host.waking_until is not None or (backend.up and not resting):
            return None
        if host.asleep and not resting:
            asleep.append((host.overslept, host.name))
    return min(asleep, key=lambda each: each[0])[1] if asleep else None
