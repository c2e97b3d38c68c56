"""HostWatch: tells those who follow the hosts over time of each change, and only of changes.

The fleet changes several times with every job. What is compared each time does not grow with the
number of jobs that run.
"""

from collections.abc import Mapping

from queueing.core.host_activity import HostActivity, HostsListener
from queueing.engine.fleet import Fleet


class HostWatch:
    """Looks at the fleet; `look` must be called after every change of it."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._listeners: list[HostsListener] = []
        self._seen: tuple[object, ...] = ()
        self._states: Mapping[str, HostActivity] = {}

    def subscribe(self, listener: HostsListener) -> None:
        """Call the listener with the state of all hosts now, and after every change of one."""
        self._listeners.append(listener)
        self._states = self.states()
        listener(self._states)

    def look(self) -> None:
        """Tell the listeners if a host does something else than before. Cheap."""
        if not self._listeners:
            return
        fleet = self._fleet
        health = [fleet.health.of(name) for name in fleet.catalog.backends]
        known = tuple([(each.up, each.error is None) for each in health])
        seen = (fleet.epochs.total(), fleet.turns, known)
        if seen == self._seen:
            return
        self._seen, states = seen, self.states()
        if states != self._states:
            self._states = states
            for listener in self._listeners:
                listener(states)

    def states(self) -> Mapping[str, HostActivity]:
        """Return what every host does now, by name."""
        return {name: self._state(name) for name in self._fleet.catalog.hosts}

    def _state(self, host: str) -> HostActivity:
        fleet = self._fleet
        host_of = fleet.catalog.host_of
        health = [fleet.health.of(spec.name) for spec in fleet.catalog.hosts[host].backends]
        looked_at = [each.up for each in health if each.up or each.error is not None]
        return HostActivity(
            running=frozenset(model for model, backend in fleet.busy if host_of[backend] == host),
            copies=frozenset(
                (copy.model, copy.backend, copy.residency) for copy in fleet.copies_on(host)
            ),
            up=any(looked_at) if looked_at else None,
        )
