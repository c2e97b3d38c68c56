"""Recent use: what each person took of the cards of late, which decides a fair order.

Time in a lane of greater weight counts less. What runs counts from its start with what it will
probably take. Memory only; a restart begins with what the store counted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from queueing.core.jobs import Job
from queueing.core.status import QuarterUse
from queueing.engine.fair.fair_order import remaining


def person_of(job: Job) -> str | None:
    """Return whose time a job takes; None if it is made for another job."""
    return job.owner if job.parent is None else None


@dataclass(frozen=True, slots=True)
class _Running:
    person: str
    seconds: float


class RecentUse:
    """Adds up by person; `changed` counts the changes of each person's sum."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = weights
        self._ended: dict[str, tuple[float, float]] = {}  # seconds, and when they counted as much
        self._running: dict[int, _Running] = {}
        self.changed: dict[str, int] = {}
        self.changes = 0

    def weigh(self, weights: Mapping[str, int]) -> None:
        """Count what begins from now on by other weights."""
        self._weights = weights

    def restore(self, quarters: Iterable[QuarterUse]) -> None:
        """Take what was used before this run; it counts as of the normal lane."""
        for each in quarters:
            self._add(each.owner, each.seconds, each.at)

    def began(self, job: Job, seconds: float) -> None:
        """Count a job that starts with what it will probably take."""
        person = person_of(job)
        if person is not None:
            self._running[job.id] = _Running(person, self._weighed(job, seconds))
            self._note(person)

    def ended(self, job: Job, seconds: float, now: float) -> None:
        """Count what a job has taken in place of what was expected; 0 for nothing."""
        running = self._running.pop(job.id, None)
        if running is not None:
            self._add(running.person, self._weighed(job, seconds), now)

    def used_s(self, persons: Iterable[str], now: float) -> Mapping[str, float]:
        """Return what each of these persons used of late."""
        wanted = set(persons)
        used = dict.fromkeys(wanted, 0.0)
        for person in wanted & self._ended.keys():
            seconds, at = self._ended[person]
            # To the second, so that two who used as much stay in the order in which they came.
            used[person] = float(round(remaining(seconds, now - at)))
        for running in self._running.values():
            if running.person in wanted:
                used[running.person] += running.seconds
        return used

    def _weighed(self, job: Job, seconds: float) -> float:
        usual = self._weights.get("normal", 1)
        return seconds * usual / self._weights.get(job.lane, usual)

    def _add(self, person: str, seconds: float, now: float) -> None:
        before_s, at = self._ended.get(person, (0.0, now))
        later = max(at, now)
        self._ended[person] = (
            remaining(before_s, later - at) + remaining(seconds, later - now),
            later,
        )
        self._note(person)

    def _note(self, person: str) -> None:
        self.changes += 1
        self.changed[person] = self.changes
