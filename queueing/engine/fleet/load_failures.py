"""LoadFailures: loads that failed, how long they pause, and what cannot be loaded where."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from queueing.core.ports import Clock
from queueing.core.status import Trouble
from queueing.planning.retry import pause_s

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

        The pause keeps two owners of one card from loading in turns for ever.
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
