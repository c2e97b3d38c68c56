"""Yet to come: who will ask again and go before jobs that wait in fair queues, by how often they came.

Memory only; a restart begins to watch again from nothing.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf

from queueing.core.jobs import Job
from queueing.core.snapshot import QueueHead
from queueing.engine.fair.fair_order import Claim, Overtaker, behind_by
from queueing.engine.fair.usage import QueueKey, RecentUsage, person_of
from queueing.forecast.arrivals import Comings, Newcomers, going_first


@dataclass(frozen=True, kw_only=True, slots=True)
class FairTurns:
    """What decides who may yet go first, by the place of each turn."""

    used_s: tuple[float, ...]  # what its person will have used by then
    spare_s: tuple[float, ...]  # how much more may go first


class NewcomerEstimate:
    """Watches who comes to each queue; `cost_s` is what a job will probably take of a GPU."""

    def __init__(self, use: RecentUsage, cost_s: Callable[[Job], float]) -> None:
        self._use = use
        self._cost_s = cost_s
        self._arrived: dict[QueueKey, Comings] = {}
        self._newest: dict[QueueKey, int] = {}  # the last job of each queue that was noted there

    def note(self, queue: QueueHead, now: float) -> None:
        """Note those who have come since the queue was last put in order."""
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
        """Return who will yet come and go before a job at that place of a queue with these jobs."""
        rates = self._arrived[job.model, job.lane].per_s(now)
        levels = self._levels(jobs, rates.keys(), now)
        person = person_of(job)
        others = [(per_s, levels[each]) for each, per_s in rates.items() if each != person]
        first = going_first(others, turns.used_s[place], self._cost_s(job))
        return Newcomers(first, turns.spare_s[place])

    def _levels(
        self, jobs: Iterable[Job], persons: Iterable[str], now: float
    ) -> Mapping[str, float]:
        """Return what people will have used when all of theirs that wait have started."""
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
    """Return what each turn of an order comes after, and leaves room for."""
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
