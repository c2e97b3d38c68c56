"""The clock that everything uses."""

import logging
import sys
import time

from queueing.core.ports import Clock

log = logging.getLogger(__name__)

_CATCHING_UP = 0.99  # of the true speed, while the machine's time is behind
JUMP_S = 12 * 3600.0
"""A clock that is set this far ahead at once is not followed at first."""
AWAY_S = 2 * 24 * 3600.0
"""A start this long after the newest stored moment is doubted at first."""
OFF_MOST_S = 60.0
"""A clock that differs by more from the database server's is wrong: one of the two is."""
DOUBTED_S = 24 * 3600.0
"""How long a clock that is far ahead is doubted: nobody may be there to say that it is right."""
_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)
_SEES_SLEEP = _BOOTTIME is not None or sys.platform == "win32"


def awake_s() -> float:
    """Return the seconds since this machine started, those it slept included."""
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)


class SystemClock:
    """The machine's time, but never backwards: a clock set back would stretch every pause.

    It continues slightly slower instead, until the machine's time has caught up. One that is set
    ahead by half a day or more is not followed until it is set back, or for a day.
    """

    def __init__(self) -> None:
        self._now = time.time()
        self._steady = awake_s()
        self._behind = False
        self._ahead_since: float | None = None
        self._doubted_until = 0.0
        self.off_s = 0.0  # how far the database server's clock is ahead of this machine's

    def now(self) -> float:
        """Return UNIX seconds."""
        real, steady = time.time(), awake_s()
        passed = steady - self._steady
        self._steady = steady
        if real - self._now - passed > JUMP_S and self._stays(steady):
            self._now += passed
        else:
            self._ahead_since = None
            self._now = max(self._now + passed * _CATCHING_UP, real)
        return self._now  # a job asks for it forty times

    def start_after(self, newest: float | None) -> None:
        """Compare the machine's time with the newest moment that was stored before, if any was."""
        now = self.now()
        if newest is None:
            return
        if now < newest:
            self._now, self._behind = newest, True
        elif now - newest > AWAY_S:
            self._doubted_until = self._steady + DOUBTED_S

    def compare(self, off_s: float) -> None:
        """Note how far the database server's clock is ahead of this machine's."""
        self.off_s = off_s

    @property
    def doubt(self) -> str | None:
        """Say why the time may be wrong; None if it is believed."""
        now = self.now()
        if self._behind and now > time.time():
            return "the clock of this machine is behind what was stored before: set it"
        self._behind = False
        if is_off(self.off_s):
            return off_in_words(self.off_s)
        if self._ahead_since is not None:
            return "the clock of this machine was set far ahead: restart Usher if that is right"
        if self._steady < self._doubted_until:
            return "the clock is days ahead of what was stored last: set it if that is wrong"
        return None

    def _stays(self, steady: float) -> bool:
        """Return whether a clock that was set ahead is not followed yet."""
        if self._behind or not _SEES_SLEEP:
            return False
        if self._ahead_since is None:
            self._ahead_since = steady
            log.error(
                "the clock of this machine was set far ahead: Usher goes on with the old time"
            )
        return steady - self._ahead_since < DOUBTED_S


def is_off(off_s: float) -> bool:
    """Return whether a difference between two clocks is more than a sign of their imprecision."""
    return abs(off_s) > OFF_MOST_S


def off_in_words(off_s: float) -> str:
    """Say how far this machine's clock is off, as the database server's is ahead by `off_s`."""
    way = "behind" if off_s > 0 else "ahead of"
    return (
        f"the clock of this machine is {abs(off_s):.0f} s {way} the database server's: set it right"
    )


def doubt_of(clock: Clock) -> str | None:
    """Say why a clock may be wrong: nothing expires or is deleted meanwhile."""
    return clock.doubt if isinstance(clock, SystemClock) else None
