"""Which hosts are unavailable and why: paused, quiet, asleep, or yielded to another program.

In memory only; it receives the results of checks and never calls a server.
`queueing.planning.hosts` has the rules.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from queueing.core.catalog import Catalog
from queueing.core.constructors import quick
from queueing.core.ports import Clock
from queueing.core.quiet_hours import QuietSpan
from queueing.core.snapshot import HostView, Reason
from queueing.core.specs import HostSpec
from queueing.core.status import Pauses
from queueing.engine.fleet.host_memory import HostMemory
from queueing.planning.hosts import why_rests

log = logging.getLogger(__name__)

OVERDUE_SHARE = 0.15  # of the usual wake time: the least time assumed until a machine is awake
SINKS_S = 90.0  # how long a machine may keep answering after it is put to sleep
OTHERS_S = 10.0  # how long to wait for a machine's other servers after the first is back
# Waking has failed after this many usual wake times, but not before this many seconds.
PATIENCE, LEAST_PATIENCE_S = 3.0, 180.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Slumber:
    """The sleep state of a machine.

    `up` is set while one of its servers answers. `sinks_until` is set while it is falling asleep.
    `woken_at` is when waking began, and `back_at` when its first server answered again. `overslept`
    is set if it did not wake in time.
    """

    up: bool = True
    sinks_until: float | None = None
    woken_at: float | None = None
    back_at: float | None = None
    overslept: bool = False


_UP = Slumber()  # shared, because most machines are up and every step asks


class HostSleep:
    """Tracks the machines that can be woken. Calls `learned` with how long each took to wake."""

    def __init__(self, clock: Clock) -> None:
        self.learned: Callable[[str, float], None] = lambda _host, _seconds: None
        self.usual_s: Callable[[HostSpec], float] = lambda _host: 0.0
        self._clock = clock
        self._known: dict[str, Slumber] = {}

    def of(self, host: HostSpec) -> Slumber:
        """Return the sleep state of a machine. One that cannot be woken never sleeps."""
        return self._known.get(host.machine_name, _UP) if host.wake else _UP

    def is_asleep(self, host: HostSpec) -> bool:
        """Return whether a machine is asleep or going to sleep."""
        known = self.of(host)
        return (not known.up or known.sinks_until is not None) and known.woken_at is None

    def waking_until(self, host: HostSpec) -> float | None:
        """Return when a waking machine is expected to be up, or None if it is not waking."""
        known = self.of(host)
        if known.woken_at is None or known.overslept:
            return None
        usual_s = self.usual_s(host)
        return max(known.woken_at + usual_s, self._clock.now() + OVERDUE_SHARE * usual_s)

    def put_to_sleep(self, host: HostSpec) -> None:
        """Record that a machine is being put to sleep. No job starts there until it is woken."""
        self._known[host.machine_name] = Slumber(sinks_until=self._clock.now() + SINKS_S)

    def stays_awake(self, host: HostSpec) -> None:
        """Record that a machine could not be put to sleep."""
        self._known[host.machine_name] = Slumber()

    def woken(self, host: HostSpec) -> None:
        """Record that a machine is being woken. One that overslept is still reported as down."""
        known = self.of(host)
        if known.woken_at is None:
            log.info("waking %s", host.machine_name)
            self._known[host.machine_name] = replace(known, woken_at=self._clock.now())

    def observe(self, host: HostSpec, answers: list[bool]) -> None:
        """Update a machine from its servers' checks: one value each, empty before the first."""
        if answers:
            known = self.of(host)
            seen = self._seen(host, known, answers)
            if seen is not known:
                self._known[host.machine_name] = seen

    def _seen(self, host: HostSpec, known: Slumber, answers: list[bool]) -> Slumber:
        if known.sinks_until is not None:
            return self._sinking(host, known, answers)
        if any(answers):
            return known if known.up else self._back(host, known, answers, self._clock.now())
        return replace(known, up=False) if known.up else self._away(host, known)

    def _sinking(self, host: HostSpec, known: Slumber, answers: list[bool]) -> Slumber:
        if not any(answers):
            return replace(known, up=False, sinks_until=None)
        if known.sinks_until is None or self._clock.now() < known.sinks_until:
            return known
        log.warning("%s was put to sleep, but still answers", host.machine_name)
        return Slumber()

    def _away(self, host: HostSpec, known: Slumber) -> Slumber:
        now = self._clock.now()
        patience_s = max(LEAST_PATIENCE_S, PATIENCE * self.usual_s(host))
        if known.woken_at is not None and now >= known.woken_at + patience_s:
            if not known.overslept:
                log.error("%s does not wake: no answer after %.0f s", host.machine_name, patience_s)
            return replace(known, overslept=True, woken_at=None)
        return known

    def _back(self, host: HostSpec, known: Slumber, answers: list[bool], now: float) -> Slumber:
        if known.woken_at is None:
            return Slumber()  # it was woken by something else
        back_at = now if known.back_at is None else known.back_at
        if not all(answers) and now < back_at + OTHERS_S:
            return replace(known, back_at=back_at)
        log.info("%s is awake", host.machine_name)
        if not known.overslept:
            self.learned(host.machine_name, back_at - known.woken_at)
        return Slumber()


_host_view = quick(HostView)  # each step makes one per host


class HostAvailability:
    """Tracks why hosts rest and builds their views for the planner. Calls `changed` on changes."""

    def __init__(
        self, catalog: Catalog, memory: HostMemory, clock: Clock, changed: Callable[[], None]
    ) -> None:
        self.catalog = catalog
        self.sleep = HostSleep(clock)
        self.paused = Pauses()
        self._memory = memory
        self._clock = clock
        self._changed = changed
        self._yields: dict[str, float] = {}  # by host: since when another program uses its GPU

    def pause(self, paused: Pauses) -> None:
        """Replace the set of pauses. Paused models and hosts start and load nothing."""
        self.paused = paused
        self._changed()

    def view(self, name: str) -> HostView:
        """Return a host's view for the planner."""
        host, now = self.catalog.hosts[name], self._clock.now()
        return _host_view(
            name=name,
            usable_mb=self._memory.usable_mb(name),
            budget_mb=host.usable_mb,
            machine=host.machine,
            paused=self.paused.stops_host(name),
            quiet=self._quiet_of(host, now),
            yields_since=None if self.paused.is_awake(name, now) else self._yields.get(name),
            longest_open_s=host.quiet.longest_open_s(now) if host.quiet else inf,
            asleep=self.sleep.is_asleep(host),
            overslept=self.sleep.of(host).overslept,
            waking_until=self.sleep.waking_until(host),
            loads_ahead=host.loads_ahead,
        )

    def _quiet_of(self, host: HostSpec, now: float) -> tuple[QuietSpan, ...]:
        """Return the coming quiet hours, except those over before an admin lets the host rest."""
        if host.quiet is None:
            return ()
        spans = host.quiet.coming(now)
        awake_until = self.paused.awake.get(host.name, now)
        return tuple(span for span in spans if span.ends_at > awake_until)

    def yields(self, host: str, since: float | None) -> None:
        """Record since when another program uses a host's GPU, or None if it has left."""
        if since is None:
            self._yields.pop(host, None)
        else:
            self._yields[host] = since
        self._changed()

    def awake_until(self, host: str) -> float | None:
        """Return until when an admin keeps a host awake, or None if it is not being kept awake."""
        awake = self.paused.is_awake(host, self._clock.now())
        return self.paused.awake[host] if awake else None

    def until(self, host: str) -> float | None:
        """Return until when a host would rest if no admin kept it awake, or None if it would not.

        `inf` while another program uses its GPU.
        """
        view = replace(
            self.view(host),
            yields_since=self._yields.get(host),
            asleep=False,
            waking_until=None,
        )
        reason = why_rests(view, self._clock.now())
        return None if reason is None else reason.until or inf

    def why(self, host: str) -> Reason | None:
        """Return why a host rests, or None if it does not. Ignores pauses by admins."""
        return why_rests(self.view(host), self._clock.now())
