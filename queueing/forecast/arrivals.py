"""How often each model is requested, and which future requests a fair order will put first. Pure.

A person goes first as long as they have used less than the owner of the waiting job will have used
by its turn. People are assumed to submit jobs at their recent rate. Together they can delay the job
by no more than the fair order's bound.
"""

from collections.abc import Iterable, Mapping
from math import exp, expm1
from typing import NamedTuple

RATE_TAU_S = 900.0
LEAST_WATCHED_S = 60.0  # minimum window: a single arrival is not a rate


class ArrivalRates:
    """Arrivals per second of each model, exponentially weighted with a time constant of 15 min."""

    def __init__(self) -> None:
        self._weights: dict[str, tuple[float, float]] = {}  # by model: rate, and its time
        self._began_at: float | None = None

    def arrived(self, model: str, now: float) -> None:
        """Count an arrival."""
        if self._began_at is None:
            self._began_at = now
        self._weights[model] = self._weight(model, now) + 1 / RATE_TAU_S, now

    def per_s(self, model: str, now: float) -> float:
        """Return the present rate; 0 for a model never requested.

        It is divided by the share of the window watched so far. Otherwise every model would seem
        rarely requested in the first half hour.
        """
        if self._began_at is None:
            return 0.0
        watched_s = max(now - self._began_at, LEAST_WATCHED_S)
        return self._weight(model, now) / (1 - exp(-watched_s / RATE_TAU_S))

    def last_at(self, model: str) -> float:
        """Return when a model was last requested, 0 for never."""
        return self._weights.get(model, (0.0, 0.0))[1]

    def models(self) -> Iterable[str]:
        """Return the models that have been requested."""
        return self._weights

    def _weight(self, model: str, now: float) -> float:
        weight, at = self._weights.get(model, (0.0, now))
        return weight * exp((at - now) / RATE_TAU_S)


LASTS_S = 3600.0  # time in which a rate is expected to fall to a third
ROUNDS = 12  # most iterations: arrivals during the delay lengthen it


class Newcomer(NamedTuple):
    """A person who will go first: the arrival rate of their jobs, and how many at most go first."""

    per_s: float
    most: float


class Newcomers(NamedTuple):
    """The people who will go first, and the most seconds by which they can delay a job."""

    persons: tuple[Newcomer, ...]
    most_s: float

    def number(self, wait_s: float) -> float:
        """Return how many of their jobs arrive within a wait and go first."""
        seconds = LASTS_S * -expm1(-max(0.0, wait_s) / LASTS_S)
        return sum(most * -expm1(-per_s * seconds / most) for per_s, most in self.persons)

    def delay_s(self, wait_s: float, each_s: float) -> float:
        """Return by how many seconds they delay a job that would otherwise start after that wait.

        `each_s` is the delay by one of their jobs.
        """
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
    """Recent arrivals of one model and lane, by person."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._seen: dict[str, tuple[float, float]] = {}  # weight, and its time

    def note(self, person: str, at: float) -> None:
        """Record an arrival."""
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
    """Return which other people go first, given their arrival rates and their usage by then."""
    return tuple(
        Newcomer(per_s, max(1.0, (used_s - theirs_s) / max(cost_s, 0.001)))
        for per_s, theirs_s in others
        if theirs_s < used_s
    )
