"""Sites: the servers on which a model can begin, each with the hosts that a copy takes there; pure.

A server that is down or paused, or whose card is another program's, is none while there are others, and a
machine that sleeps is none while it would not be woken for the model.
"""

from collections.abc import Sequence
from typing import NamedTuple

from queueing.core.snapshot import HostView, ModelView, World
from queueing.planning.hosts import rests
from queueing.planning.lying_on import lies_on


class Site(NamedTuple):
    """A server and the hosts a copy of a model lies on there; it begins once all of them can."""

    backend: str
    hosts: tuple[HostView, ...]


def fitting(world: World, model: ModelView) -> Sequence[Site]:
    """Return where a model may be loaded once memory is free: all of its servers if it fits on none."""
    known = [
        Site(name, tuple(world.hosts[host] for host in lies_on(world, model.name, name)))
        for name in model.backends
        if name in world.backends
    ]
    return [
        site for site in known if all(mb <= h.budget_mb for h, mb in _needs(model, site))
    ] or known


def sites(world: World, model: ModelView) -> Sequence[Site]:
    """Return where a model can begin; if that is nowhere, all that it fits on, as if they came back."""
    places = fitting(world, model)
    found = [site for site in places if _is_open(world, model, site)]
    if all(any(rests(host, world.now) for host in site.hosts) for site in found):
        found += [site for site in places if _would_be_woken(world, site)]
    return found or places


def _needs(model: ModelView, site: Site) -> Sequence[tuple[HostView, int]]:
    shares = dict(model.shares.get(site.backend, ()))
    return [(host, shares.get(host.name, model.vram_mb)) for host in site.hosts]


def _is_open(world: World, model: ModelView, site: Site) -> bool:
    """Whether it is up, or will be as soon as its machine has woken; quiet hours are foreseen.

    Other programs may hold too much of a card for as long as they like.
    """
    has_room = all(mb <= h.usable_mb or mb >= h.budget_mb for h, mb in _needs(model, site))
    return world.backends[site.backend].up and has_room and _is_wanted(world, site)


def _would_be_woken(world: World, site: Site) -> bool:
    asleep = any(host.asleep and not host.overslept for host in site.hosts)
    return asleep and _is_wanted(world, site) and not any(rests(h, world.now) for h in site.hosts)


def _is_wanted(world: World, site: Site) -> bool:
    """Whether neither an admin nor another program keeps it from working."""
    return not world.backends[site.backend].paused and all(
        not host.paused and host.yields_since is None for host in site.hosts
    )
