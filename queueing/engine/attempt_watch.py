"""Watches one attempt: enforces its timeouts and estimates its end."""

import asyncio
from collections.abc import Awaitable, Callable

from queueing.core.concurrency import timeout_at
from queueing.core.ports import Fetch, Report
from queueing.core.requests import Progress
from queueing.core.specs import Timeouts


class NeverBegan(TimeoutError):
    """A server accepted a job but sent no sign of progress within `first_s`."""


async def watched(
    call: Callable[[Report], Awaitable[Fetch]], timeouts: Timeouts, report: Report
) -> Fetch:
    """Await `call(report)` while signs of progress arrive in time.

    Cancels the call on a timeout. Raises `NeverBegan` if the first sign is missing, and
    `TimeoutError` if the server falls silent later or takes longer than `total_s`.
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
    """The signs of progress of one attempt; `limit` expires when the next one is late.

    A single timer checks again when it fires, so that hundreds of signs a second do not each need
    their own timer.
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
        """Record a sign of progress and pass it on."""
        if self._closed or self.limit.expired():
            return
        self._heard_at = self._loop.time()
        if progress.ahead is None:  # otherwise the attempt is still queued on the server
            self._count += 1
            if self._count == 1:
                self.look()  # from now on `idle_s` applies, which may be shorter
        self._report(progress)

    def look(self) -> None:
        """Expire the limit if a sign is late, otherwise schedule the next check."""
        if self._timer is not None:
            self._timer.cancel()
        ends = self._ends()
        if ends is not None and ends <= self._loop.time():
            self.limit.reschedule(ends)
        elif ends is not None:
            self._timer = self._loop.call_at(ends, self.look)

    def missing(self) -> TimeoutError:
        """Return the error for the missing sign."""
        took_s = self._loop.time() - self._began
        silent_for = f"after {took_s:.0f} s"
        if not self._count and took_s < (self._timeouts.total_s or float("inf")):
            return NeverBegan(f"no sign of progress {silent_for}")
        return TimeoutError(f"given up {silent_for}, {self._count} signs of progress")

    def close(self) -> None:
        """Ignore all further signs: rescheduling an expired timeout raises in asyncio."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _ends(self) -> float | None:
        silent_s = self._timeouts.idle_s if self._count else self._timeouts.first_s
        ends = [self._heard_at + silent_s] if silent_s is not None else []
        if self._timeouts.total_s is not None:
            ends.append(self._began + self._timeouts.total_s)
        return min(ends, default=None)


_NEARLY = 0.8  # share of the work done: from here on the job may end sooner than usual
_ENOUGH = 3  # steps between two estimates: fewer are too noisy


class ProgressEstimate:
    """Estimates when an attempt ends, from its steps.

    The learned time is used until this job proves slower, as with the first image of a new size. A
    faster job does not shorten it, because more stages may follow.
    """

    def __init__(self, ends_at: float, now: float = 0.0) -> None:
        self._usual_end = ends_at
        self._usual_s = ends_at - now
        self._held = False  # queued on its server behind other clients' prompts
        self._first = self._last = (0, 0)  # (step, total) of the current stage
        self._began = 0.0

    def heard(self, progress: Progress, now: float) -> float | None:
        """Process a sign of progress. Returns the expected end if it changes."""
        if progress.ahead:
            self._held = True
            return None
        begins, self._held = self._held, False
        if begins:
            self._usual_end = now + self._usual_s
        if progress.step is None:
            return self._usual_end if begins else None
        ends_at = self.seen(progress.step, now)
        return ends_at and self._earlier_end(progress, now, ends_at)

    def _earlier_end(self, progress: Progress, now: float, ends_at: float) -> float:
        """Return an earlier end for a job that is nearly done, based on its share of all work."""
        share, (number, total) = progress.fraction or 0.0, progress.step or (0, 0)
        done = number - self._first[0]
        if share < _NEARLY or not done:
            return ends_at
        step_s = (now - self._began) / done
        rest_s = step_s * total * (1.0 - share) / share
        return min(ends_at, now + max(rest_s, step_s * max(0, total - number)))

    def seen(self, step: tuple[int, int], now: float) -> float | None:
        """Process a finished step. Returns the expected end once it can be estimated.

        `step` is the number of the step and the total of its stage.
        """
        (number, total), before = step, self._last
        self._last = step
        if total != before[1] or number < before[0]:  # the next stage counts from its own start
            self._first, self._began = step, now
        done = number - self._first[0]
        if done < _ENOUGH:
            return None
        left_s = (now - self._began) / done * max(0, total - number)
        return max(self._usual_end, now + left_s)
