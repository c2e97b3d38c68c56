"""Wakes the machines that waiting jobs need and puts idle machines to sleep.

`queueing.planning.hosts` decides which ones to wake. Every call to a machine runs in its own task
and may fail.
"""

import logging
from collections.abc import Coroutine, Sequence

from queueing.core.concurrency import TaskGroup
from queueing.core.errors import BackendError
from queueing.core.ports import Clock, HostControl
from queueing.core.snapshot import Snapshot
from queueing.core.specs import HostSpec
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.health_checker import HealthChecker
from queueing.planning.hosts import is_busy, to_wake

log = logging.getLogger(__name__)

CALLED_AGAIN_S = 10.0  # a wake-up packet may be lost, or arrive before the machine is asleep
CALLED_LATE_S = 60.0  # the same for a machine that did not wake in time


class HostPower:
    """Checks the machines that can sleep, at every step of the scheduler."""

    def __init__(
        self, *, fleet: Fleet, health: HealthChecker, machines: HostControl | None, clock: Clock
    ) -> None:
        self._fleet = fleet
        self._looked = health.first_looked
        self._machines = machines
        self._clock = clock
        self._began_at = clock.now()
        self._busy_at: dict[str, float] = {}
        self._called_at: dict[str, float] = {}

    def observe(self) -> None:
        """Record which machines answer."""
        if not self._looked.is_set():
            return
        hosts_of = self._fleet.catalog.machines
        for host in self._hosts():
            servers = {b.name for gpu in hosts_of[host.machine_name] for b in gpu.backends}
            answers = [self._fleet.health.of(name).up for name in servers]
            self._fleet.rests.sleep.observe(host, answers)

    def act(self, snapshot: Snapshot, work: TaskGroup) -> bool:
        """Wake machines and put them to sleep as needed. Returns whether `snapshot` is outdated."""
        hosts, machines = self._hosts(), self._machines
        if not hosts or machines is None or not self._looked.is_set():
            return False
        changed = False
        known = self._fleet.catalog.hosts
        wanted = {known[name].machine_name for name in to_wake(snapshot)}
        for host in hosts:
            if host.machine_name in wanted:
                changed = self._fleet.rests.sleep.of(host).woken_at is None or changed
                self._fleet.rests.sleep.woken(host)
            called = self._fleet.rests.sleep.of(host).woken_at is not None
            if called and self._is_due(host):
                self._called_at[host.machine_name] = snapshot.now
                self._begin(_call(machines, host), f"waking {host.machine_name}", work)
            elif not called and self._may_sleep(snapshot, host):
                self._fleet.rests.sleep.put_to_sleep(host)
                steps = self._put_to_sleep(machines, host)
                self._begin(steps, f"sleep of {host.machine_name}", work)
                changed = True
        return changed

    def _hosts(self) -> Sequence[HostSpec]:
        """Return one host of every machine that can be woken."""
        return [gpus[0] for gpus in self._fleet.catalog.machines.values() if gpus[0].wake]

    def _is_due(self, host: HostSpec) -> bool:
        late = self._fleet.rests.sleep.of(host).overslept
        every_s = CALLED_LATE_S if late else CALLED_AGAIN_S
        return self._clock.now() >= self._called_at.get(host.machine_name, 0.0) + every_s

    def _may_sleep(self, snapshot: Snapshot, host: HostSpec) -> bool:
        """Return whether a machine has been idle for long enough, and record when it is busy."""
        if host.sleep is None:
            return False
        name, gpus = host.machine_name, self._fleet.catalog.machines[host.machine_name]
        busy = any(is_busy(snapshot, gpu.name) for gpu in gpus)
        if busy or self._fleet.rests.sleep.is_asleep(host):
            self._busy_at[name] = snapshot.now
            return False
        idle_since = self._busy_at.setdefault(name, self._began_at)
        return snapshot.now - idle_since >= host.sleep.after_s

    async def _put_to_sleep(self, machines: HostControl, host: HostSpec) -> None:
        log.info("putting %s to sleep: it has been idle", host.machine_name)
        try:
            await machines.sleep(host)
        except BackendError as error:
            log.warning("%s could not be put to sleep: %s", host.machine_name, error)
            self._busy_at[host.machine_name] = self._clock.now()
            self._fleet.rests.sleep.stays_awake(host)

    @staticmethod
    def _begin(steps: Coroutine[None, None, None], name: str, work: TaskGroup) -> None:
        work.create_task(_guarded(steps, name), name=name)


async def _call(machines: HostControl, host: HostSpec) -> None:
    try:
        await machines.wake(host)
    except BackendError as error:
        log.warning("%s could not be woken: %s", host.machine_name, error)


async def _guarded(steps: Coroutine[None, None, None], name: str) -> None:
    try:
        await steps
    except Exception:
        log.exception("%s: stopped by a bug", name)
