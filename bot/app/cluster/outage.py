"""Counts how long the database has given no answer."""

from collections.abc import Callable


class Outage:
    """The seconds without an answer, from the first question that failed to the next answer."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None
        self._before_s = 0.0

    @property
    def seconds(self) -> float:
        """All of them so far."""
        return self._before_s + (0.0 if self._since is None else self._clock() - self._since)

    def failed(self, asked_at: float) -> None:
        """Note that a question asked at that time was not answered."""
        if self._since is None:
            self._since = asked_at

    def answered(self) -> None:
        """Note an answer."""
        self._before_s, self._since = self.seconds, None
