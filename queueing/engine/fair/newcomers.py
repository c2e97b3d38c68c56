"""Newcomers: estimates which future jobs will start before jobs that already wait in fair queues.

Based on how often each person submits jobs. In memory only; counting starts over after a restart.
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
