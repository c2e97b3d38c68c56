"""Which hosts a model lies on, or would lie on, in a world: several where it spans cards. Pure."""

from collections.abc import Collection

from queueing.core.world import BackendView, World


def hosts_of(view: BackendView) -> tuple[str, ...]:
    """Return all hosts of a backend."""
    return view.hosts or (view.host,)


def lies_on(world: World, model: str, backend: str) -> tuple[str, ...]:
    """Return the hosts of a model at a backend."""
    view = world.models.get(model)
    shares = None if view is None else view.shares.get(backend)
    if shares is None:
        return hosts_of(world.backends[backend])
    return tuple([host for host, _ in shares])


def backends_on(world: World, model: str, hosts: Collection[str]) -> frozenset[str]:
    """Return the backends at which a model lies on one of these hosts."""
    view = world.models.get(model)
    names = () if view is None else view.backends
    return frozenset(
        [
            name
            for name in names
            if name in world.backends and any(host in hosts for host in lies_on(world, model, name))
        ]
    )
