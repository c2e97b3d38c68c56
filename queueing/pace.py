"""Pace: when a running job will be done, judged by its own steps; pure."""

_ENOUGH = 3  # steps between two looks: single ones say too little


class Pace:
    """Follows the steps of one attempt.

    What was learned from other jobs stands until this one is seen to be slower, such as the first
    picture of a size nobody has asked for yet. A faster one is no news: more may follow its steps.
    """

    def __init__(self, ends_at: float) -> None:
        self._usual_end = ends_at
        self._first = self._last = (0, 0)  # steps of this stage, and of how many
        self._began = 0.0

    def seen(self, step: tuple[int, int], now: float) -> float | None:
        """Take in that a step of so many is done; return the expected end once it can be told."""
        (number, total), before = step, self._last
        self._last = step
        if total != before[1] or number < before[0]:  # the next stage of the work counts anew
            self._first, self._began = step, now
        done = number - self._first[0]
        if done < _ENOUGH:
            return None
        left_s = (now - self._began) / done * max(0, total - number)
        return max(self._usual_end, now + left_s)
