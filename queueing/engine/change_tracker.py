"""Which waiting queues a look concerns, and a warning in the log when one becomes long."""

import logging
from collections.abc import Callable, Collection

from queueing.core.events import QueuesMoved
from queueing.core.reasons import code
from queueing.core.snapshot import Plan, Snapshot
from queueing.planning.hosts import lies_on, waiting_on


def news(
    before: Snapshot | None, now: Snapshot, moved: Collection[str], turned: Collection[str]
) -> QueuesMoved | None:
    """Return what to report after a look, None for nothing.

    `moved` are the queues whose places or reasons changed, `turned` those with another reason.
    """
    changed = _changed_hosts(before, now)
    turned = {*turned, *waiting_on(now, changed)}
    models = frozenset(moved) | turned
    hosts = changed.union(*(_hosts_of(now, model) for model in models)) if models else changed
    outlooks = waiting_on(now, hosts) - models
    if not models and not outlooks:
        return None
    return QueuesMoved(models=models, outlooks=outlooks, turned=frozenset(turned))


def _changed_hosts(before: Snapshot | None, now: Snapshot) -> set[str]:
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


def _states(world: Snapshot) -> set[tuple[str, str, str]]:
    """Return the state of all copies and servers, by server."""
    copies = {(copy.backend, copy.model, copy.residency.value) for copy in world.copies}
    return copies | {(view.name, "", str(view.up)) for view in world.backends.values()}


def _hosts_of(world: Snapshot, model: str) -> set[str]:
    view = world.models.get(model)
    names = () if view is None else view.backends
    return {
        host for name in names if name in world.backends for host in lies_on(world, model, name)
    }


log = logging.getLogger(__name__)

CALM_SHARE = 0.5  # of the bound; below it, the next warning may come


class LongQueues:
    """Looks at the queues that something has happened in; 0 as `bound` warns of none."""

    def __init__(self, bound: Callable[[], int]) -> None:
        self._bound = bound
        self._touched: set[str] | None = None  # None until the first look, which is at all
        self._deep: set[str] = set()

    def touch(self, model: str) -> None:
        """Note that something has happened in the queue of a model."""
        if self._touched is not None:
            self._touched.add(model)

    def look(self, world: Snapshot, plan: Plan) -> None:
        """Warn of queues that have become deep."""
        models = world.models.keys() if self._touched is None else self._touched
        bound = self._bound()
        for model in sorted(models):
            view = world.models.get(model)
            waiting = sum(lane.count for lane in view.waiting) if view else 0
            if model in self._deep:
                if waiting < bound * CALM_SHARE or not bound:
                    self._deep.discard(model)
            elif bound and waiting >= bound:
                self._deep.add(model)
                reason = plan.reasons.get(model)
                why = f": {code(reason)}" if reason is not None else ""
                log.warning("%d jobs wait for %s%s", waiting, model, why)
        self._touched = set()
