"""What each person took of the GPUs of late, and how much later the jobs of fair queues start.

Time in a lane of greater weight counts less. What runs counts from its start with what it will
probably take. Memory only; after a restart it begins with what the store counted.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from queueing.core.jobs import Job
from queueing.core.snapshot import QueueHead
from queueing.core.status import QuarterUse
from queueing.engine.fair.fair_order import Claim, Overtaker, behind_by, remaining


def person_of(job: Job) -> str | None:
    """Return whose time a job takes; None if it is made for another job."""
    return job.owner if job.parent is None else None


@dataclass(frozen=True, slots=True)
class _Running:
    person: str
    seconds: float


class RecentUsage:
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


QueueKey = tuple[str, str]
"""A model and a lane."""


class FairDelays:
    """Knows what has gone before the jobs of each queue although it came later."""

    def __init__(self) -> None:
        self._overtakers: dict[QueueKey, dict[int, Overtaker]] = {}
        self._busy_until: dict[QueueKey, float] = {}  # when the last start has been worked off
        self._late_since: dict[QueueKey, dict[int, float]] = {}
        self._restored: set[QueueKey] = set()  # queues with jobs that an earlier run let go first

    def restore(self, job: Job, cost_s: float) -> None:
        """Take an ended job that went before some that wait: those are as late as before."""
        self._goes_before(job, cost_s)
        self._restored.add((job.model, job.lane))

    def began(self, job: Job, cost_s: float, now: float) -> None:
        """Count a job that has started."""
        if job.seq is not None:
            self._goes_before(job, cost_s)
            self._busy_until[job.model, job.lane] = now + cost_s

    def _goes_before(self, job: Job, cost_s: float) -> None:
        overtakers = self._overtakers.setdefault((job.model, job.lane), {})
        overtakers[job.id] = Overtaker(job.seq or 0, cost_s, job.queued_at)

    def ended(self, job: Job, taken_s: float) -> None:
        """Count what a job has taken in place of what was expected; 0 leaves that."""
        overtakers = self._overtakers.get((job.model, job.lane), {})
        if taken_s and job.id in overtakers:
            overtakers[job.id] = overtakers[job.id]._replace(cost_s=taken_s)

    def keep(self, keys: Collection[QueueKey]) -> None:
        """Forget the queues that no longer wait."""
        for state in (self._overtakers, self._busy_until, self._late_since):
            for gone in state.keys() - set(keys):
                del state[gone]

    def overtakers_of(self, queue: QueueHead) -> Collection[Overtaker]:
        """Return what has started and can have overtaken a job of the queue; forget the rest."""
        key = queue.model, queue.lane
        if key in self._restored:
            self._restored.discard(key)
            self._let_come(queue)
        first = min((job.seq or 0 for job in queue.heads), default=0)
        kept = {
            job_id: each
            for job_id, each in self._overtakers.get(key, {}).items()
            if each.seq > first
        }
        self._overtakers[key] = kept
        return kept.values()

    def moments(self, queue: QueueHead) -> Sequence[float]:
        """Return when the jobs came that would wait now by arrival, in that order.

        Each that went first leaves its own moment to those it passed: with the moment of who was passed
        a queue would seem to wait longer than by arrival, and get turns from other models.
        """
        waiting = {job.id: job.queued_at for job in queue.heads}
        overtakers = self._overtakers.get((queue.model, queue.lane), {})
        begun = [each.came_at for job_id, each in overtakers.items() if job_id not in waiting]
        return sorted((*waiting.values(), *begun))[len(begun) :]

    def _let_come(self, queue: QueueHead) -> None:
        """Let what went before by an earlier run go before those who wait now, and no one to come.

        After a restart, places are given again that jobs had which went before others and ended.
        """
        last = 1 + max((job.seq or 0 for job in queue.heads), default=0)
        overtakers = self._overtakers.get((queue.model, queue.lane), {})
        if len(queue.heads) == queue.waiting:
            for job_id, each in overtakers.items():
                overtakers[job_id] = each._replace(seq=min(each.seq, last))

    def by_the_clock(
        self,
        queue: QueueHead,
        claims: Sequence[Claim],
        overtakers: Collection[Overtaker],
        now: float,
    ) -> Sequence[Claim]:
        """Return the claims with how late each is by the clock, and remember since when."""
        key = queue.model, queue.lane
        known = self._late_since.get(key, {})
        until = self._busy_until.get(key, now)
        since = {
            job.id: known.get(job.id, until - behind_s)
            for job, behind_s in zip(queue.heads, behind_by(claims, overtakers), strict=True)
            if behind_s > 0
        }
        self._late_since[key] = since
        return [
            claim._replace(late_s=now - since[job.id]) if job.id in since else claim
            for job, claim in zip(queue.heads, claims, strict=True)
        ]
