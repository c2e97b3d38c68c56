"""ProgressEta: when a running job will be done, judged by its own steps; pure."""

from queueing.core.requests import Progress

_NEARLY = 0.8  # of all the work: so little is left that it may end sooner than usual
_ENOUGH = 3  # steps between two looks: single ones say too little


class ProgressEta:
    """Follows the steps of one attempt.

    The time learned from other jobs stands until this one is seen to be slower, such as the first
    picture of a new size. A faster one changes nothing: more stages may follow its steps.
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
