"""Arrivals: how often each model is requested.

Pure bookkeeping. Owned by one task; never blocks.
"""

from math import exp

RATE_TAU_S = 900.0
LEAST_WATCHED_S = 60.0  # a rate is not judged on less: a single arrival is no stream


class Rates:
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
