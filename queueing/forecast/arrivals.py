"""How often each model is requested, and who of those to come a fair order puts first; pure.

A person goes first while they have used less than this one's person will have by its turn. They
come as often as of late, and all together go no further than the bound of the order allows.
"""

from collections.abc import Iterable, Mapping
from math import exp, expm1
from typing import NamedTuple

RATE_TAU_S = 900.0
LEAST_WATCHED_S = 60.0  # a rate is not judged on less: a single arrival is no stream


class ArrivalRates:
    """Arrivals per second of each model, exponentially weighted: old ones fade within 15 minutes."""

    def __init__(self, tau_s: float = RATE_TAU_S) -> None:
        self._tau_s = tau_s
        self._weights: dict[str, tuple[float, float]] = {}  # by model: per second, and as of when
        self._began_at: float | None = None

    def arrived(self, model: str, now: float) -> None:
        """Count an arrival."""
        if self._began_at is None:
            self._began_at = now
        self._weights[model] = self._weight(model, now) + 1 / self._tau_s, now

    def per_s(self, model: str, now: float) -> float:
        """Return the present rate; 0 for a model never requested.

        It is divided by the share of the window watched so far: otherwise everything would seem
        rarely requested during the first half hour.
        """
        if self._began_at is None:
            return 0.0
        watched_s = max(now - self._began_at, LEAST_WATCHED_S)
        return self._weight(model, now) / (1 - exp(-watched_s / self._tau_s))

    def _weight(self, model: str, now: float) -> float:
        weight, at = self._weights.get(model, (0.0, now))
        return weight * exp((at - now) / self._tau_s)


LASTS_S = 3600.0  # within which a rate is expected to fall to a third
ROUNDS = 12  # until the delay by those who come during the delay is found


class Newcomer(NamedTuple):
    """A person who will go first: how often, and how many times at most."""

    per_s: float
    most: float


class Newcomers(NamedTuple):
    """Those who will go first, and how much of their work may do so at all."""

    persons: tuple[Newcomer, ...]
    most_s: float

    def number(self, wait_s: float) -> float:
        """Return how many of their jobs come within a wait and go first."""
        seconds = LASTS_S * -expm1(-max(0.0, wait_s) / LASTS_S)
        return sum(most * -expm1(-per_s * seconds / most) for per_s, most in self.persons)

    def delay_s(self, wait_s: float, each_s: float) -> float:
        """Return how much later a job starts that would start after that wait without them."""
        delay_s = 0.0
        for _ in range(ROUNDS):
            before_s, delay_s = (
                delay_s,
                min(self.most_s, self.number(wait_s + delay_s) * each_s),
            )
            if delay_s - before_s < 0.1:
                break
        return delay_s


class Comings:
    """How often each person asks for a model in a lane, of late."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._seen: dict[str, tuple[float, float]] = {}  # weight, and as of when

    def note(self, person: str, at: float) -> None:
        """Note an arrival."""
        weight, before = self._seen.get(person, (0.0, at))
        self._seen[person] = weight * exp((before - at) / RATE_TAU_S) + 1, at

    def per_s(self, now: float) -> Mapping[str, float]:
        """Return the arrivals per second of each person."""
        seen = -expm1(-max(now - self._since, LEAST_WATCHED_S) / RATE_TAU_S) * RATE_TAU_S
        return {
            person: weight * exp((at - now) / RATE_TAU_S) / seen
            for person, (weight, at) in self._seen.items()
        }


def going_first(
    others: Iterable[tuple[float, float]], used_s: float, cost_s: float
) -> tuple[Newcomer, ...]:
    """Return who goes first of others (how often they come, what they will have used)."""
    return tuple(
        Newcomer(per_s, max(1.0, (used_s - theirs_s) / max(cost_s, 0.001)))
        for per_s, theirs_s in others
        if theirs_s < used_s
    )
