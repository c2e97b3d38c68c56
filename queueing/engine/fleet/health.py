"""Which servers can be used, and which loads failed; memory only.

Updated by the health checker and by any caller that meets a failing server. Each loss and return of
a server is logged once.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from queueing.core.ports import Clock, ServerInfo
from queueing.core.specs import BackendSpec
from queueing.core.status import Trouble
from queueing.planning.retry import pause_s

log = logging.getLogger(__name__)

WEDGE_PAUSE_S = 60.0  # how long a server that never ran its work stays out at first
LONGEST_WEDGE_PAUSE_S = 1800.0


@dataclass(frozen=True, kw_only=True, slots=True)
class HealthRecord:
    """Whether a backend can be used, since when, and its last error.

    `error` is None before the first look and while it is up. `wedged_until` is set while it answers
    but was seen not to run the work it accepted; `wedges` counts how often in a row.
    """

    up: bool = False
    since: float = 0.0
    description: str = ""
    error: str | None = None
    wedges: int = 0
    wedged_until: float | None = None


class BackendHealth:
    """Keeps the health of every backend; calls `changed` when one goes or comes back."""

    def __init__(
        self, backends: Iterable[BackendSpec], clock: Clock, changed: Callable[[], None]
    ) -> None:
        self.look_soon: Callable[[str], None] = lambda _backend: None
        self.may_sleep: Callable[[str], bool] = lambda _backend: False  # then it is no alarm
        self._clock = clock
        self._changed = changed
        self._names: dict[str, str] = {}
        self._health: dict[str, HealthRecord] = {}
        self.know(backends)

    def know(self, backends: Iterable[BackendSpec], renewed: Collection[str] = ()) -> None:
        """Keep the health of these backends alone; nothing is known yet of those that are renewed."""
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
        """Note that a backend answered; one that is wedged stays out until its pause is over."""
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

    def down(self, backend: str, error: str) -> None:
        """Note that a backend does not answer; a restart also ends its being wedged."""
        health = self._health[backend]
        news = health.up or health.error is None  # or it was never up, which is not known yet
        if news:
            level = logging.INFO if self.may_sleep(backend) else logging.WARNING
            log.log(level, "%s is down: %s", self._names[backend], error)
        self._health[backend] = replace(
            health,
            up=False,
            since=self._clock.now() if health.up else health.since,
            error=error,
            wedged_until=None,
        )
        if news:
            self._changed()
        if health.up:
            self.look_soon(backend)

    def wedged(self, backend: str, error: str) -> None:
        """Note that a backend answers but never ran the work it accepted.

        Its answers prove nothing then, so it comes back after a restart, or for a trial after a
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
        """Note that a backend finished a job: it is not wedged."""
        if self._health[backend].wedges:
            self._health[backend] = replace(self._health[backend], wedges=0)


MENDING_S = 600.0  # how long a model that cannot work on a backend is not tried there again
LASTING_S = 30.0  # a copy that leaves by itself sooner was not loaded properly


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureStreak:
    """A model's failed loads in a row, and when it may be tried again.

    `good_at` is set by a successful load; the streak ends only if its copy then lasts a while.
    `told` of them were counted for requests that have failed since. `unknown`: the last of them had
    no known reason, so no other model leaves for the next try.
    """

    count: int = 0
    told: int = 0
    until: float = 0.0
    good_at: float | None = None
    unknown: bool = False


_NONE = FailureStreak()


class LoadFailures:
    """Keeps failures in memory; calls `changed` when one is added."""

    def __init__(self, clock: Clock, changed: Callable[[], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._failures: dict[str, FailureStreak] = {}
        self._unable: dict[tuple[str, str], Trouble] = {}

    def of(self, model: str) -> FailureStreak:
        """Return a model's failed loads in a row."""
        return self._failures.get(model, _NONE)

    def failed(self, model: str, *, unknown: bool = False) -> int:
        """Note a failed load and begin its pause; return how many failed in a row."""
        now, past = self._clock.now(), self.of(model)
        lasted = past.good_at is not None and now - past.good_at >= LASTING_S
        count, told = (1, 0) if lasted else (past.count + 1, past.told)
        self._failures[model] = FailureStreak(
            count=count, told=told, until=now + pause_s(count), unknown=unknown
        )
        self._changed()
        return count

    def given_up(self, model: str) -> int:
        """Return how many loads failed for the requests that fail now; the next are counted from zero."""
        streak = self.of(model)
        self._failures[model] = replace(streak, told=streak.count)
        return streak.count - streak.told

    def forget(self) -> None:
        """Try everything again: an operator has changed the configuration."""
        self._failures.clear()
        self._unable.clear()

    def worked(self, model: str) -> None:
        """Note a successful load."""
        if model in self._failures:
            self._failures[model] = replace(self._failures[model], good_at=self._clock.now())

    def lost(self, model: str, ready_at: float) -> None:
        """Note that a copy left by itself; right after its load that counts as a failed load.

        The pause keeps two owners of one GPU from loading in turns for ever.
        """
        if self._clock.now() - ready_at < LASTING_S:
            self.failed(model)

    def unable(self, model: str, backend: str, cause: str) -> None:
        """Note that a backend cannot serve a model as configured; an admin may fix that meanwhile."""
        again_at = self._clock.now() + MENDING_S
        self._unable[model, backend] = Trouble(backend=backend, cause=cause, again_at=again_at)
        self._changed()

    def troubles(self, model: str) -> tuple[Trouble, ...]:
        """Return where a model cannot be served now."""
        now = self._clock.now()
        return tuple(
            trouble
            for (name, _), trouble in self._unable.items()
            if name == model and trouble.again_at > now
        )

    def unable_now(self) -> frozenset[tuple[str, str]]:
        """Return the models and backends that are not able now."""
        if not self._unable:
            return frozenset()
        now = self._clock.now()
        return frozenset(key for key, trouble in self._unable.items() if trouble.again_at > now)
