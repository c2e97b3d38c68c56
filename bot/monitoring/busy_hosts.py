"""Measures for how long each host has run something, be it one job or several at once."""

from collections import Counter, defaultdict
from collections.abc import Callable


class BusyHosts:
    """Adds up the time in which a host ran at least one job; `now` is a steady clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._running: Counter[str] = Counter()
        self._since: dict[str, float] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def begin(self, host: str) -> None:
        """Note that a job begins there."""
        self._running[host] += 1
        if self._running[host] == 1:
            self._since[host] = self._now()

    def end(self, host: str) -> None:
        """Note that one has ended there."""
        self._running[host] -= 1
        if not self._running[host]:
            self._seconds[host] += self._now() - self._since.pop(host)

    def seconds(self, host: str) -> float:
        """Return how long it has been busy, until now."""
        since = self._since.get(host)
        return self._seconds[host] + (0.0 if since is None else self._now() - since)
