"""Recent usage per person, and the delays that a fair order causes.

Time in a lane with a greater weight counts less. A running job counts from its start with its
expected time. In memory only; after a restart, counting begins with what the store has recorded.
How often each person submits jobs tells which future jobs will start before those that wait.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf

from queueing.core.jobs import Job
from queueing.core.snapshot import QueueHead
from queueing.core.status import QuarterUse
from queueing.engine.fair.fair_order import Claim, Overtaker, behind_by, remaining
from queueing.forecast.arrivals import Comings, Newcomers, going_first


def person_of(job: Job) -> str | None:
    """Return the person whose time a job takes, or None if it was made for another job."""
    return job.owner if job.parent is None else None


@dataclass(frozen=True, slots=True)
class _Running:
    person: str
    seconds: float


class RecentUsage:
    """Sums up usage by person.

    `changes` counts all changes; `changed` has its value at each person's last change.
    """

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = weights
        self._ended: dict[str, tuple[float, float]] = {}  # seconds, and as of when
        self._running: dict[int, _Running] = {}
        self.changed: dict[str, int] = {}
        self.changes = 0

    def weigh(self, weights: Mapping[str, int]) -> None:
        """Use other weights for jobs that start from now on."""
        self._weights = weights

    def restore(self, quarters: Iterable[QuarterUse]) -> None:
        """Load the usage of earlier runs, with the weight of the normal lane."""
        for each in quarters:
            self._add(each.owner, each.seconds, each.at)

    def began(self, job: Job, seconds: float) -> None:
        """Count a job that starts, with its expected seconds."""
        person = person_of(job)
        if person is not None:
            self._running[job.id] = _Running(person, self._weighed(job, seconds))
            self._note(person)

    def ended(self, job: Job, seconds: float, now: float) -> None:
        """Replace a job's expected seconds with what it took; 0 counts nothing."""
        running = self._running.pop(job.id, None)
        if running is not None:
            self._add(running.person, self._weighed(job, seconds), now)

    def used_s(self, persons: Iterable[str], now: float) -> Mapping[str, float]:
        """Return each person's recent usage in GPU seconds."""
        wanted = set(persons)
        used = dict.fromkeys(wanted, 0.0)
        for person in wanted & self._ended.keys():
            seconds, at = self._ended[person]
            # Rounded to seconds, so that people with equal usage stay in order of arrival.
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
    """Tracks the jobs of each queue that started before jobs that had arrived earlier."""

    def __init__(self) -> None:
        self._overtakers: dict[QueueKey, dict[int, Overtaker]] = {}
        self._busy_until: dict[QueueKey, float] = {}  # when the work of the last start is done
        self._late_since: dict[QueueKey, dict[int, float]] = {}
        self._restored: set[QueueKey] = set()  # queues with overtakers from an earlier run

    def restore(self, job: Job, cost_s: float) -> None:
        """Record an ended job that overtook waiting jobs, whose delays still count."""
        self._add_overtaker(job, cost_s)
        self._restored.add((job.model, job.lane))

    def began(self, job: Job, cost_s: float, now: float) -> None:
        """Count a job that has started."""
        if job.seq is not None:
            self._add_overtaker(job, cost_s)
            self._busy_until[job.model, job.lane] = now + cost_s

    def _add_overtaker(self, job: Job, cost_s: float) -> None:
        overtakers = self._overtakers.setdefault((job.model, job.lane), {})
        overtakers[job.id] = Overtaker(job.seq or 0, cost_s, job.queued_at)

    def ended(self, job: Job, taken_s: float) -> None:
        """Replace a job's expected seconds with what it took; 0 keeps the estimate."""
        overtakers = self._overtakers.get((job.model, job.lane), {})
        if taken_s and job.id in overtakers:
            overtakers[job.id] = overtakers[job.id]._replace(cost_s=taken_s)

    def keep(self, keys: Collection[QueueKey]) -> None:
        """Forget all queues but these."""
        for state in (self._overtakers, self._busy_until, self._late_since):
            for gone in state.keys() - set(keys):
                del state[gone]

    def overtakers_of(self, queue: QueueHead) -> Collection[Overtaker]:
        """Return the started jobs that came after a waiting job of the queue; forget the others."""
        key = queue.model, queue.lane
        if key in self._restored:
            self._restored.discard(key)
            self._limit_restored(queue)
        first = min((job.seq or 0 for job in queue.heads), default=0)
        kept = {
            job_id: each
            for job_id, each in self._overtakers.get(key, {}).items()
            if each.seq > first
        }
        self._overtakers[key] = kept
        return kept.values()

    def moments(self, queue: QueueHead) -> Sequence[float]:
        """Return the arrival times of the jobs that would now wait by arrival, in that order.

        The jobs that an overtaker passed get its arrival time. With their own times, the queue
        would seem to have waited longer than by arrival, and would take starts from other models.
        """
        waiting = {job.id: job.queued_at for job in queue.heads}
        overtakers = self._overtakers.get((queue.model, queue.lane), {})
        begun = [each.came_at for job_id, each in overtakers.items() if job_id not in waiting]
        return sorted((*waiting.values(), *begun))[len(begun) :]

    def _limit_restored(self, queue: QueueHead) -> None:
        """Limit restored overtakers to the jobs that wait now.

        After a restart, places in the queue are assigned again, including those of overtakers that
        have ended.
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
        """Return the claims with their delays by the clock. Also records when each became late."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class FairTurns:
    """For each place in the order: who can still go first, and how much."""

    used_s: tuple[float, ...]  # recent usage of the place's person by their turn
    spare_s: tuple[float, ...]  # how many more GPU seconds may go first


class NewcomerEstimate:
    """Observes who submits to each queue; `cost_s` returns the expected GPU seconds of a job."""

    def __init__(self, use: RecentUsage, cost_s: Callable[[Job], float]) -> None:
        self._use = use
        self._cost_s = cost_s
        self._arrived: dict[QueueKey, Comings] = {}
        self._newest: dict[QueueKey, int] = {}  # by queue: id of the newest observed job

    def note(self, queue: QueueHead, now: float) -> None:
        """Record the jobs that have arrived since the last call."""
        key = queue.model, queue.lane
        arrived = self._arrived.setdefault(key, Comings(now))
        last = self._newest.get(key, 0)
        for job in queue.heads:
            person = person_of(job)
            if job.id > last and person is not None:
                arrived.note(person, job.queued_at)
        self._newest[key] = max(last, max((job.id for job in queue.heads), default=0))

    def before(
        self, job: Job, place: int, turns: FairTurns, jobs: Iterable[Job], now: float
    ) -> Newcomers:
        """Return the jobs expected to arrive and start before the job at `place` of `jobs`."""
        rates = self._arrived[job.model, job.lane].per_s(now)
        levels = self._levels(jobs, rates.keys(), now)
        person = person_of(job)
        others = [(per_s, levels[each]) for each, per_s in rates.items() if each != person]
        first = going_first(others, turns.used_s[place], self._cost_s(job))
        return Newcomers(first, turns.spare_s[place])

    def _levels(
        self, jobs: Iterable[Job], persons: Iterable[str], now: float
    ) -> Mapping[str, float]:
        """Return each person's usage once their waiting jobs have started."""
        levels = dict(self._use.used_s(persons, now))
        for job in jobs:
            person = person_of(job)
            if person in levels:
                levels[person] += self._cost_s(job)
        return levels


def turns_of(
    claims: Sequence[Claim],
    order: Sequence[int],
    used_s: Mapping[str, float],
    overtakers: Collection[Overtaker],
    overtaken_s: float,
) -> FairTurns:
    """Return each place's usage and the work that may still go before it."""
    used = dict[str | None, float](used_s.items())
    used[None] = -inf
    by_turn = []
    for index in order:
        by_turn.append(used[claims[index].person])
        used[claims[index].person] += claims[index].cost_s
    behind = behind_by(claims, overtakers)
    before = accumulate((claims[index].cost_s for index in order), initial=0.0)
    spare_s = (
        max(0.0, overtaken_s - behind[index] - placed_s)
        for index, placed_s in zip(order, before, strict=False)
    )
    return FairTurns(used_s=tuple(by_turn), spare_s=tuple(spare_s))
