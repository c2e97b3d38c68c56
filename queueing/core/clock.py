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
        steady = time.monotonic()
        passed_s, self._steady = steady - self._steady, steady
        self._now = max(time.time(), self._now + passed_s * _CATCHING_UP)
        return self._now
