"""News: the waiting lines that a look concerns, beside those that moved themselves; pure."""

from collections.abc import Collection

from queueing.core.events import LinesMoved
from queueing.core.snapshot import World
from queueing.planning.lying_on import lies_on, waiting_on


def news(
    before: World | None, now: World, moved: Collection[str], turned: Collection[str]
) -> LinesMoved | None:
    """Return what to report after a look, None for nothing.

    `moved` are the lines whose places or reasons changed, `turned` those with another reason.
    """
    changed = _changed_hosts(before, now)
    turned = {*turned, *waiting_on(now, changed)}
    models = frozenset(moved) | turned
    hosts = changed.union(*(_hosts_of(now, model) for model in models)) if models else changed
    outlooks = waiting_on(now, hosts) - models
    if not models and not outlooks:
        return None
    return LinesMoved(models=models, outlooks=outlooks, turned=frozenset(turned))


def _changed_hosts(before: World | None, now: World) -> set[str]:
    """Return the hosts where a load began, ended or failed, a copy left, or a server came or went."""
    if before is None:
        return set()
    states = _states(before) ^ _states(now)
    return {
        host
        for name, model, _ in states
        if name in now.backends
        for host in lies_on(now, model, name)
    }


def _states(world: World) -> set[tuple[str, str, str]]:
    """Return the state of all copies and servers, by server."""
    copies = {(copy.backend, copy.model, copy.residency.value) for copy in world.copies}
    return copies | {(view.name, "", str(view.up)) for view in world.backends.values()}


def _hosts_of(world: World, model: str) -> set[str]:
    view = world.models.get(model)
    names = () if view is None else view.backends
    return {
        host for name in names if name in world.backends for host in lies_on(world, model, name)
    }
