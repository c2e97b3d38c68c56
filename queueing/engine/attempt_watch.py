"""Watches one attempt: how long its server may be silent, and when it will be done."""

import asyncio
from collections.abc import Awaitable, Callable

from queueing.core.concurrency import timeout_at
from queueing.core.ports import Fetch, Report
from queueing.core.requests import Progress
from queueing.core.specs import Timeouts


class NeverBegan(TimeoutError):
    """A server accepted work and showed no sign of it within `first_s`."""


async def watched(
    call: Callable[[Report], Awaitable[Fetch]], timeouts: Timeouts, report: Report
) -> Fetch:
    """Await `call(report)` as long as signs of progress arrive in time.

    Raises `NeverBegan` when the first sign is missing, `TimeoutError` when the server falls silent
    later or takes longer than `total_s`; the call is cancelled then.
    """
    signs = _Signs(timeouts, report)
    try:
        async with signs.limit:
            signs.look()
            return await call(signs.note)
    except TimeoutError:
        if not signs.limit.expired():
            raise
        raise signs.missing() from None
    finally:
        signs.close()


class _Signs:
    """The signs of one attempt; `limit` expires when the next one is late.

    A sign moves the end further away, so a timer looks again when it rings, and a stream of
    hundreds of signs a second needs no timer for each.
    """

    def __init__(self, timeouts: Timeouts, report: Report) -> None:
        self.limit = timeout_at(None)
        self._timeouts = timeouts
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._began = self._heard_at = self._loop.time()
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def note(self, progress: Progress) -> None:
        """Take a sign and pass it on."""
        if self._closed or self.limit.expired():
            return
        self._heard_at = self._loop.time()
        if progress.ahead is None:  # else the server is alive, but this attempt has not begun
            self._count += 1
            if self._count == 1:
                self.look()  # from now on, `idle_s` may end it earlier
        self._report(progress)

    def look(self) -> None:
        """Give the attempt up if it is late, otherwise look again when it would be."""
        if self._timer is not None:
            self._timer.cancel()
        ends = self._ends()
        if ends is not None and ends <= self._loop.time():
            self.limit.reschedule(ends)
        elif ends is not None:
            self._timer = self._loop.call_at(ends, self.look)

    def missing(self) -> TimeoutError:
        """Return the error that says which sign was missing."""
        took_s = self._loop.time() - self._began
        silent_for = f"after {took_s:.0f} s"
        if not self._count and took_s < (self._timeouts.total_s or float("inf")):
            return NeverBegan(f"no sign of progress {silent_for}")
        return TimeoutError(f"given up {silent_for}, {self._count} signs of progress")

    def close(self) -> None:
        """Ignore all further signs: asyncio raises for those that come after the end."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _ends(self) -> float | None:
        silent_s = self._timeouts.idle_s if self._count else self._timeouts.first_s
        ends = [self._heard_at + silent_s] if silent_s is not None else []
        if self._timeouts.total_s is not None:
            ends.append(self._began + self._timeouts.total_s)
        return min(ends, default=None)


_NEARLY = 0.8  # of all the work: so little is left that it may end sooner than usual
_ENOUGH = 3  # steps between two looks: single ones say too little


class ProgressEstimate:
    """Follows the steps of one attempt.

    The time learned from other jobs stands until this one is seen to be slower, such as the first
    image of a new size. A faster one changes nothing: more stages may follow its steps.
    """

    def __init__(self, ends_at: float, now: float = 0.0) -> None:
        self._usual_end = ends_at
        self._usual_s = ends_at - now
        self._held = False  # waiting at the server behind other clients' prompts
        self._first = self._last = (0, 0)  # steps of this stage, and their total
        self._began = 0.0

    def heard(self, progress: Progress, now: float) -> float | None:
        """Take in a sign of the server; return the expected end if it changes."""
        if progress.ahead:
            self._held = True
            return None
        begins, self._held = self._held, False
        if begins:
            self._usual_end = now + self._usual_s
        if progress.step is None:
            return self._usual_end if begins else None
        ends_at = self.seen(progress.step, now)
        return ends_at and self._sooner(progress, now, ends_at)

    def _sooner(self, progress: Progress, now: float, ends_at: float) -> float:
        """Return an earlier end for a job that is nearly done, by all its work."""
        share, (number, total) = progress.fraction or 0.0, progress.step or (0, 0)
        done = number - self._first[0]
        if share < _NEARLY or not done:
            return ends_at
        step_s = (now - self._began) / done
        rest_s = step_s * total * (1.0 - share) / share
        return min(ends_at, now + max(rest_s, step_s * max(0, total - number)))

    def seen(self, step: tuple[int, int], now: float) -> float | None:
        """Take in a finished step and the total; return the expected end once it is known."""
        (number, total), before = step, self._last
        self._last = step
        if (
            total != before[1] or number < before[0]
        ):  # the next stage of the work counts from the start
            self._first, self._began = step, now
        done = number - self._first[0]
        if done < _ENOUGH:
            return None
        left_s = (now - self._began) / done * max(0, total - number)
        return max(self._usual_end, now + left_s)
