"""Which servers are up, and which loads failed. In memory only.

Updated by the health checker and by every caller that finds a server failing. Each loss and return
of a server is logged once.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from queueing.core.errors import KeyRefused
from queueing.core.ports import Clock, ServerInfo
from queueing.core.specs import BackendSpec
from queueing.core.status import Trouble
from queueing.planning.retry import pause_s

log = logging.getLogger(__name__)

WEDGE_PAUSE_S = 60.0  # first pause of a server that never began its work
LONGEST_WEDGE_PAUSE_S = 1800.0


@dataclass(frozen=True, kw_only=True, slots=True)
class HealthRecord:
    """Whether a backend is up, since when, and its last error.

    `error` is None before the first check and while the backend is up. `wedged_until` is set while
    a server answers but does not run the jobs it accepted; `wedges` counts how often in a row.
    `key_doubted` is set after a job was refused for its key, until the key works; `key_refused`
    while it is known not to.
    """

    up: bool = False
    since: float = 0.0
    description: str = ""
    error: str | None = None
    wedges: int = 0
    wedged_until: float | None = None
    key_doubted: bool = False
    key_refused: bool = False


class BackendHealth:
    """Tracks the health of every backend. Calls `changed` when one goes down or comes back."""

    def __init__(
        self, backends: Iterable[BackendSpec], clock: Clock, changed: Callable[[], None]
    ) -> None:
        self.look_soon: Callable[[str], None] = lambda _backend: None
        # Whether a backend's host may be asleep: its being down is then logged as info.
        self.may_sleep: Callable[[str], bool] = lambda _backend: False
        self._clock = clock
        self._changed = changed
        self._names: dict[str, str] = {}
        self._health: dict[str, HealthRecord] = {}
        self.know(backends)

    def know(self, backends: Iterable[BackendSpec], renewed: Collection[str] = ()) -> None:
        """Track exactly these backends. The health of `renewed` ones is reset to unknown."""
        self._names = {
            spec.name: f"{spec.name} ({spec.address})" if spec.url else spec.name
            for spec in backends
        }
        unknown = HealthRecord(since=self._clock.now())
        self._health = {
            name: unknown if name in renewed else self._health.get(name, unknown)
            for name in self._names
        }

    def of(self, backend: str) -> HealthRecord:
        """Return a backend's health."""
        return self._health[backend]

    def up(self, backend: str, info: ServerInfo) -> None:
        """Record that a backend answered. A wedged one stays down until its pause is over."""
        now, health = self._clock.now(), self._health[backend]
        if health.wedged_until is not None and now < health.wedged_until:
            return
        self._health[backend] = HealthRecord(
            up=True,
            since=health.since if health.up else now,
            description=info.description,
            wedges=health.wedges,
        )
        if not health.up:
            if health.error is not None:
                log.info("%s is back: %s", self._names[backend], info.description)
            self._changed()

    def failed(self, backend: str, error: Exception) -> None:
        """Record that a backend is down because of an error."""
        self.down(backend, str(error), key_refused=isinstance(error, KeyRefused))

    def doubt_key(self, backend: str) -> None:
        """Schedule a test of a backend's key, because a job was refused for it."""
        self._health[backend] = replace(self._health[backend], key_doubted=True)
        self.look_soon(backend)

    def down(self, backend: str, error: str, *, key_refused: bool = False) -> None:
        """Record that a backend is down. It is not wedged then, as it may have restarted."""
        health = self._health[backend]
        news = health.up or health.error is None  # None also before the first check
        if news:
            level = logging.INFO if self.may_sleep(backend) else logging.WARNING
            log.log(level, "%s is down: %s", self._names[backend], error)
        self._health[backend] = replace(
            health,
            up=False,
            since=self._clock.now() if health.up else health.since,
            error=error,
            wedged_until=None,
            key_doubted=health.key_doubted or key_refused,
            key_refused=key_refused,
        )
        if news or key_refused is not health.key_refused:
            self._changed()
        if health.up:
            self.look_soon(backend)

    def wedged(self, backend: str, error: str) -> None:
        """Record that a backend answers but never ran the work it accepted.

        Its answers to checks prove nothing. It comes back after a restart, or for a trial after a
        pause that doubles each time.
        """
        now, health = self._clock.now(), self._health[backend]
        pause_s = min(WEDGE_PAUSE_S * 2 ** min(health.wedges, 16), LONGEST_WEDGE_PAUSE_S)
        self._health[backend] = replace(
            health,
            up=False,
            since=now if health.up else health.since,
            error=error,
            wedges=health.wedges + 1,
            wedged_until=now + pause_s,
        )
        self._changed()
        self.look_soon(backend)

    def worked(self, backend: str) -> None:
        """Record that a backend finished a job, so it is not wedged."""
        if self._health[backend].wedges:
            self._health[backend] = replace(self._health[backend], wedges=0)


MENDING_S = 600.0  # backoff before retrying a model on a backend that cannot run it
LASTING_S = 30.0  # a copy that disappears sooner counts as a failed load


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureStreak:
    """A model's consecutive failed loads, and when it may be retried.

    `good_at` is the time of a successful load, which ends the streak only if its copy lasts for
    `LASTING_S`. `told` counts the failures already reported with failed jobs. `unknown` means that
    the last failure had no known cause, so a retry must not evict other models.
    """

    count: int = 0
    told: int = 0
    until: float = 0.0
    good_at: float | None = None
    unknown: bool = False


_NONE = FailureStreak()


class LoadFailures:
    """Tracks failed loads in memory. Calls `changed` when one is added."""

    def __init__(self, clock: Clock, changed: Callable[[], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._failures: dict[str, FailureStreak] = {}
        self._unable: dict[tuple[str, str], Trouble] = {}

    def of(self, model: str) -> FailureStreak:
        """Return a model's streak of failed loads."""
        return self._failures.get(model, _NONE)

    def failed(self, model: str, *, unknown: bool = False) -> int:
        """Record a failed load and start its backoff. Returns how many failed in a row."""
        now, past = self._clock.now(), self.of(model)
        lasted = past.good_at is not None and now - past.good_at >= LASTING_S
        count, told = (1, 0) if lasted else (past.count + 1, past.told)
        self._failures[model] = FailureStreak(
            count=count, told=told, until=now + pause_s(count), unknown=unknown
        )
        self._changed()
        return count

    def given_up(self, model: str) -> int:
        """Return the failures to report with the jobs that fail now, then count from zero."""
        streak = self.of(model)
        self._failures[model] = replace(streak, told=streak.count)
        return streak.count - streak.told

    def forget(self) -> None:
        """Reset everything after a change of the configuration."""
        self._failures.clear()
        self._unable.clear()

    def worked(self, model: str) -> None:
        """Record a successful load."""
        if model in self._failures:
            self._failures[model] = replace(self._failures[model], good_at=self._clock.now())

    def lost(self, model: str, ready_at: float) -> None:
        """Record that a copy disappeared; shortly after its load, this counts as a failed load.

        The backoff keeps two programs that share a GPU from evicting each other's models endlessly.
        """
        if self._clock.now() - ready_at < LASTING_S:
            self.failed(model)

    def unable(self, model: str, backend: str, cause: str) -> None:
        """Record that a backend cannot serve a model as configured, for `MENDING_S`.

        An admin may fix the cause in that time.
        """
        again_at = self._clock.now() + MENDING_S
        self._unable[model, backend] = Trouble(backend=backend, cause=cause, again_at=again_at)
        self._changed()

    def troubles(self, model: str) -> tuple[Trouble, ...]:
        """Return the backends that cannot serve a model now, with the causes."""
        now = self._clock.now()
        return tuple(
            trouble
            for (name, _), trouble in self._unable.items()
            if name == model and trouble.again_at > now
        )

    def unable_now(self) -> frozenset[tuple[str, str]]:
        """Return the (model, backend) pairs that cannot be served now."""
        if not self._unable:
            return frozenset()
        now = self._clock.now()
        return frozenset(key for key, trouble in self._unable.items() if trouble.again_at > now)
