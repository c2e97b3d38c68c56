"""Which hosts a model lies on, or would lie on, in a world: several where it spans cards. Pure."""

from collections.abc import Collection
from collections.abc import Set as AbstractSet

from queueing.core.snapshot import BackendView, World


def hosts_of(view: BackendView) -> tuple[str, ...]:
    """Return all hosts of a backend."""
    return view.hosts or (view.host,)


def lies_on(world: World, model: str, backend: str) -> tuple[str, ...]:
    """Return the hosts of a model at a backend."""
    server, view = world.backends[backend], world.models.get(model)
    shares = None if view is None or not server.hosts else view.shares.get(backend)
    if shares is None:
        return hosts_of(server)
    return tuple([host for host, _ in shares])


def servers_on(world: World, hosts: AbstractSet[str]) -> frozenset[str]:
    """Return the backends with one of these hosts."""
    views = world.backends.values()
    return frozenset([view.name for view in views if not hosts.isdisjoint(hosts_of(view))])


def waiting_on(world: World, hosts: AbstractSet[str]) -> frozenset[str]:
    """Return the models that wait and could run on one of these hosts."""
    near = servers_on(world, hosts) if hosts else frozenset()
    return frozenset(
        [
            name
            for name, view in world.models.items()
            if view.waiting
            and not near.isdisjoint(view.backends)
            and (not view.shares or backends_on(world, name, hosts))
        ]
    )


def backends_on(world: World, model: str, hosts: Collection[str]) -> frozenset[str]:
    """Return the backends at which a model lies on one of these hosts."""
    view = world.models.get(model)
    names = () if view is None else view.backends
    found = [(name, world.backends[name]) for name in names if name in world.backends]
    return frozenset(
        [
            name
            for name, server in found
            if (server.host in hosts if not server.hosts else _any_of(world, model, name, hosts))
        ]
    )


def _any_of(world: World, model: str, backend: str, hosts: Collection[str]) -> bool:
    return any(host in hosts for host in lies_on(world, model, backend))
