"""Rests: which hosts do nothing now, and why: paused, quiet, asleep, or left to another program.

Memory only. The rules are those of `queueing.planning.hosts`.
"""

from collections.abc import Callable
from dataclasses import replace
from math import inf

from queueing.core.catalog import Catalog, HostSpec
from queueing.core.constructors import quick
from queueing.core.paused import Paused
from queueing.core.ports import Clock
from queueing.core.quiet_hours import Quiet
from queueing.core.snapshot import HostView, Reason
from queueing.engine.fleet.host_availability import MachineSleep
from queueing.engine.fleet.host_memory import HostMemory
from queueing.planning.hosts import why_rests

_host_view = quick(HostView)  # one is made for each host at each step


class Rests:
    """Keeps why hosts rest, and shows each host to the planner; calls `changed` after a change."""

    def __init__(
        self, catalog: Catalog, memory: HostMemory, clock: Clock, changed: Callable[[], None]
    ) -> None:
        self.catalog = catalog
        self.sleep = MachineSleep(clock)
        self.paused = Paused()
        self._memory = memory
        self._clock = clock
        self._changed = changed
        self._yields: dict[str, float] = {}  # by host: since when another program has its card

    def pause(self, paused: Paused) -> None:
        """Replace what is paused: it starts and loads nothing; everything else may again."""
        self.paused = paused
        self._changed()

    def view(self, name: str) -> HostView:
        """Return a host in the planner's terms."""
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
        )

    def _quiet_of(self, host: HostSpec, now: float) -> tuple[Quiet, ...]:
        """Return the quiet hours that are kept: an admin may have put the host to work until some end."""
        if host.quiet is None:
            return ()
        spans = host.quiet.coming(now)
        awake_until = self.paused.awake.get(host.name, now)
        return tuple(span for span in spans if span.ends_at > awake_until)

    def yields(self, host: str, since: float | None) -> None:
        """Note since when another program has a host's card, None for no longer."""
        if since is None:
            self._yields.pop(host, None)
        else:
            self._yields[host] = since
        self._changed()

    def awake_until(self, host: str) -> float | None:
        """Return until when a host works because an admin wants it to, None if it need not."""
        awake = self.paused.is_awake(host, self._clock.now())
        return self.paused.awake[host] if awake else None

    def until(self, host: str) -> float | None:
        """Return until when a host rests, as if no admin had put it to work: None if it does not.

        `inf` while another program has its card.
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
        """Return why a host does nothing now, a pause by an admin aside; None if it does not rest."""
        return why_rests(self.view(host), self._clock.now())
