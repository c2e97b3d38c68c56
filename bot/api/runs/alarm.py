"""Wakes the tasks that wait for a job, at a time that can be postponed."""

import asyncio


class Alarm:
    """Sets an event at a time that can be postponed cheaply, for example at every token.

    Postponing does not touch the timer.
    """

    def __init__(self, news: asyncio.Event) -> None:
        self._news = news
        self._loop = asyncio.get_running_loop()
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def put(self, due: float) -> None:
        """Set the time, on the loop's clock. It must not be earlier than the previous one."""
        self._due = due
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._ring)

    def close(self) -> None:
        """Cancel the alarm."""
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        self._timer = None
        if self._loop.time() < self._due:
            self.put(self._due)
        else:
            self._news.set()
