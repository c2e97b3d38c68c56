"""Wakes a stream that nothing happens to, without a timer for each token."""

import asyncio


class Alarm:
    """Sets an event at a moment that may be put off at every token: a timer stays as it is."""

    def __init__(self, news: asyncio.Event) -> None:
        self._news = news
        self._loop = asyncio.get_running_loop()
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def put(self, due: float) -> None:
        """Ring at a time of the loop's clock, no earlier than the time before."""
        self._due = due
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._ring)

    def close(self) -> None:
        """Ring no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        self._timer = None
        if self._loop.time() < self._due:
            self.put(self._due)
        else:
            self._news.set()
