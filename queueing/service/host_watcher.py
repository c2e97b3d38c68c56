"""Reports each change of the hosts' activity to listeners, and only changes.

The fleet changes several times with every job. Only hosts on which something started or ended are
checked, so the cost does not grow with the number of running jobs. Quiet hours begin by the clock,
so resting is read from the snapshot of each scheduler step.
"""

from collections.abc import Iterable, Mapping

from queueing.core.snapshot import Residency, Snapshot
from queueing.core.status import HostActivity, HostsListener, Rest, rest_of
from queueing.engine.fleet.fleet import Fleet
from queueing.planning.hosts import why_rests

_Copies = frozenset[tuple[str, str, Residency]]


class HostWatcher:
    """Watches the fleet.

    Call `look` after every change of it, and `observe` at every scheduler step.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._listeners: list[HostsListener] = []
        self._health: list[object] = []
        self._states: dict[str, HostActivity] = {}
        self._copies: dict[str, tuple[int, _Copies]] = {}  # by host, with the epoch they belong to
        self._rests: dict[str, Rest | None] = {}

    def subscribe(self, listener: HostsListener) -> None:
        """Call a listener with the state of all hosts now, and with each change later."""
        self._listeners.append(listener)
        states = self.states()
        self._states = dict(states)
        listener(states)

    def look(self) -> None:
        """Report hosts whose activity has changed. Cheap."""
        turned = self._fleet.jobs.turned
        if not self._listeners:
            turned.clear()
            return
        fleet = self._fleet
        health: list[object] = [fleet.health.of(name) for name in fleet.catalog.backends]
        if health != self._health:
            self._health = health
            self._look_at({*fleet.catalog.hosts, *self._states})
        elif turned:
            hosts_of = fleet.catalog.hosts_of
            self._look_at({host for backend in turned for host in hosts_of.get(backend, ())})
        turned.clear()

    def observe(self, snapshot: Snapshot) -> None:
        """Report hosts that started or stopped resting."""
        rests = {
            name: rest_of(why_rests(view, snapshot.now), paused=view.paused)
            for name, view in snapshot.hosts.items()
        }
        changed = [name for name, rest in rests.items() if rest != self._rests.get(name)]
        self._rests = rests
        if changed and self._listeners:
            self._look_at(changed)

    def _look_at(self, hosts: Iterable[str]) -> None:
        found = {host: self._state(host) for host in hosts}
        news = {host: each for host, each in found.items() if each != self._states.get(host)}
        if news:
            self._states.update(news)
            for listener in self._listeners:
                listener(news)

    def states(self) -> Mapping[str, HostActivity]:
        """Return the activity of every host, by name."""
        return {name: self._state(name) for name in self._fleet.catalog.hosts}

    def _state(self, host: str) -> HostActivity:
        fleet = self._fleet
        if host not in fleet.catalog.hosts:  # removed from the configuration
            self._copies.pop(host, None)
            return HostActivity()
        backends = [spec.name for spec in fleet.catalog.hosts[host].backends]
        health = {name: fleet.health.of(name) for name in backends}
        looked_at = [each.up for each in health.values() if each.up or each.error is not None]
        return HostActivity(
            running=frozenset(
                [
                    m
                    for m, b in fleet.jobs.busy
                    if b in backends and host in fleet.catalog.gpus_of(m, b)
                ]
            ),
            copies=self._copies_on(host, sum([fleet.copies.epochs[name] for name in backends])),
            servers=frozenset([name for name, each in health.items() if each.up]),
            up=any(looked_at) if looked_at else None,
            rest=self._rests.get(host),
        )

    def _copies_on(self, host: str, epoch: int) -> _Copies:
        known = self._copies.get(host)
        if known is not None and known[0] == epoch:
            return known[1]
        copies = self._fleet.copies.on(host)
        found = frozenset([(copy.model, copy.backend, copy.residency) for copy in copies])
        self._copies[host] = epoch, found
        return found
