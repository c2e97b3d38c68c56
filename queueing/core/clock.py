"""The clock that everything uses."""

import time

_CATCHING_UP = 0.99  # of the true speed, while the machine's time is behind


class SystemClock:
    """The machine's time, but never backwards: a clock set back would stretch every pause.

    It continues slightly slower instead, until the machine's time has caught up.
    """

    def __init__(self) -> None:
        self._now = time.time()
        self._steady = time.monotonic()

    def now(self) -> float:
        """Return UNIX seconds."""
        real, steady = time.time(), time.monotonic()
        least = self._now + (steady - self._steady) * _CATCHING_UP
        self._steady = steady
        self._now = now = max(least, real)  # a job asks for it forty times
        return now
