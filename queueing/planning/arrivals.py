"""Arrivals: how often each model is requested, in which lanes, and how many come together.

Pure bookkeeping. Owned by one task; never blocks.
"""

from math import exp

from queueing.core.world import Flow

RATE_TAU_S = 900.0
RUSH_TAU_S = 60.0  # arrivals within about this time come together
KEPT_SHARE = 0.98  # of what earlier arrivals say about that, at each one
LEAST_WATCHED_S = 60.0  # a rate is not judged on less: a single arrival is no stream


class _Stream:
    """The arrivals in one line, and how many of them come together.

    Of a rush of k, on average (k - 1)/2 others of the last minute count when one arrives, beyond
    those expected at the usual rate.
    """

    __slots__ = ("_at", "_lately", "_more", "_seen", "_weight")

    def __init__(self, now: float) -> None:
        self._at = now
        self._weight = self._lately = self._more = self._seen = 0.0

    def arrived(self, now: float, tau_s: float, seen: float) -> None:
        """Count an arrival, when that share of the window has been watched."""
        faded, lately = (
            exp((self._at - now) / tau_s),
            self._lately * exp((self._at - now) / RUSH_TAU_S),
        )
        usual = self._weight * faded / seen * RUSH_TAU_S
        self._more = self._more * KEPT_SHARE + (lately - usual)
        self._seen = self._seen * KEPT_SHARE + 1
        self._weight = self._weight * faded + 1 / tau_s
        self._lately, self._at = lately + 1, now

    def weight(self, now: float, tau_s: float) -> float:
        """Return the arrivals per second, as far as they were watched."""
        return self._weight * exp((self._at - now) / tau_s)

    @property
    def together(self) -> float:
        """How many usually come together; 1 if they come independently."""
        return 1 + max(0.0, 2 * self._more / self._seen) if self._seen else 1.0


class Rates:
    """Arrivals per second of each model, exponentially weighted: old ones fade within 15 minutes."""

    def __init__(self, tau_s: float = RATE_TAU_S) -> None:
        self._tau_s = tau_s
        self._streams: dict[str, dict[str, _Stream]] = {}  # by model and lane
        self._began_at: float | None = None

    def arrived(self, model: str, now: float, lane: str = "normal") -> None:
        """Count an arrival."""
        if self._began_at is None:
            self._began_at = now
        lanes = self._streams.setdefault(model, {})
        if lane not in lanes:
            lanes[lane] = _Stream(now)
        lanes[lane].arrived(now, self._tau_s, self._seen(now))

    def per_s(self, model: str, now: float) -> float:
        """Return the present rate; 0 for a model never requested."""
        return sum(flow.per_s for flow in self.by_lane(model, now).values())

    def by_lane(self, model: str, now: float) -> dict[str, Flow]:
        """Return the arrivals of each lane the model has been requested in.

        They are divided by the share of the window watched so far: otherwise everything would seem
        rarely requested during the first half hour.
        """
        if self._began_at is None or model not in self._streams:
            return {}
        seen = self._seen(now)
        return {
            lane: Flow(per_s=stream.weight(now, self._tau_s) / seen, together=stream.together)
            for lane, stream in self._streams[model].items()
        }

    def _seen(self, now: float) -> float:
        """Return the share of the window that has been watched."""
        return 1 - exp(-max(self.watched_s(now), LEAST_WATCHED_S) / self._tau_s)

    def watched_s(self, now: float) -> float:
        """Return how long arrivals have been counted."""
        return 0.0 if self._began_at is None else now - self._began_at
