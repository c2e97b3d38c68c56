"""Fair queues: reorders the store's queues by recent usage per person.

The planner sees the same arrival times at the same positions as without a fair order. Which model
starts when is therefore unaffected; the fair order only decides whose job takes each start.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from queueing.core.events import Event, JobChanged
from queueing.core.jobs import Job, JobEvent, StartOrder
from queueing.core.ports import Clock
from queueing.core.snapshot import QueueHead, Rules
from queueing.core.status import QuarterUse
from queueing.engine.fair.fair_order import Claim, fair_order
from queueing.engine.fair.usage import (
    FairDelays,
    FairTurns,
    NewcomerEstimate,
    QueueKey,
    RecentUsage,
    person_of,
    turns_of,
)
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.fleet.learned_times import LearnedTimes
from queueing.forecast.arrivals import Newcomers
from queueing.forecast.durations import size_class
from queueing.store.jobs.job_store import JobStore

WINDOW = 500  # jobs of a queue to reorder; the ones behind them stay in order of arrival

MARGIN = 1.5  # a job may hold its slot for this many times the usual duration


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ordered:
    """A queue in fair order. Valid while the queue and the usage of its people stay the same."""

    queue: QueueHead
    jobs: tuple[Job, ...]
    places: Mapping[int, int]
    shown: QueueHead
    persons: frozenset[str]
    changes: int
    turns: FairTurns


class FairQueues:
    """The store's queues: in fair order after `begin`, otherwise in order of arrival."""

    def __init__(
        self, store: JobStore, *, fleet: Fleet, times: LearnedTimes, clock: Clock, rules: Rules
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._times = times
        self._clock = clock
        self._rules = rules
        self.use = RecentUsage(rules.lane_weights)
        self._ordered: dict[QueueKey, _Ordered] = {}
        self._key_of: dict[int, QueueKey] = {}  # by job id, for the ordered jobs
        self._late = FairDelays()
        self._coming = NewcomerEstimate(self.use, self._cost_s)
        self._per_queue = 1
        self.is_on = False

    @property
    def is_wanted(self) -> bool:
        """Whether the rules ask for a fair order."""
        return self._rules.order == "fair"

    def begin(
        self, used: Iterable[QuarterUse], running: Iterable[Job], passed: Iterable[Job] = ()
    ) -> None:
        """Start ordering queues, based on recent usage and on the running jobs.

        `passed` are ended jobs that overtook jobs which still wait. The delays of those still
        count.
        """
        self.is_on = True
        self.use.restore(used)
        for job in passed:
            self._late.restore(job, self._cost_s(job))
        for job in running:
            self.began(job)

    def _stop_ordering(self) -> None:
        """Return to the order of arrival and discard all counts."""
        self.is_on = False
        self.use = RecentUsage(self._rules.lane_weights)
        self._ordered.clear()
        self._key_of.clear()
        self._late = FairDelays()
        self._coming = NewcomerEstimate(self.use, self._cost_s)

    def follow(self, rules: Rules) -> None:
        """Apply other rules. Recent usage is kept."""
        self._rules = rules
        self.use.weigh(rules.lane_weights)
        self._ordered.clear()
        self._key_of.clear()
        if self.is_on and not self.is_wanted:
            self._stop_ordering()

    def on_event(self, event: Event) -> None:
        """Count jobs that start and end."""
        if not self.is_on or not isinstance(event, JobChanged):
            return
        match event.event:
            case JobEvent.START:
                self.began(event.job)
            case JobEvent.COMPLETE | JobEvent.CANCEL:
                self._end(event.job, self._fleet.jobs.meter.taken_s(event.job.id))
            case JobEvent.FAIL | JobEvent.RETRY | JobEvent.RELEASE:
                self._end(event.job, 0.0)

    def began(self, job: Job) -> None:
        """Count a job that has started."""
        cost_s = self._cost_s(job)
        self.use.began(job, cost_s)
        self._late.began(job, cost_s, self._clock.now())

    def _end(self, job: Job, taken_s: float) -> None:
        self.use.ended(job, taken_s, self._clock.now())
        self._late.ended(job, taken_s)

    # ------------------------------------------------------------ queues

    async def queues(self, now: float, *, per_queue: int) -> list[QueueHead]:
        """Return every queue with its first startable jobs, in fair order."""
        if not self.is_on:
            return await self._store.queues(now, per_queue=per_queue)
        self._per_queue = per_queue
        found = await self._store.queues(now, per_queue=max(WINDOW, per_queue))
        keys = {(queue.model, queue.lane) for queue in found}
        for gone in self._ordered.keys() - keys:
            self._forget(gone)
        self._late.keep(keys)
        return [self._ordered_queue(queue, now, per_queue).shown for queue in found]

    def real(self, job: Job) -> Job:
        """Return the job with its real arrival time, as `queues` may have changed it."""
        ordered = self._ordered.get((job.model, job.lane))
        place = None if ordered is None else ordered.places.get(job.id)
        return job if ordered is None or place is None else ordered.jobs[place]

    def _ordered_queue(self, queue: QueueHead, now: float, per_queue: int) -> _Ordered:
        key = queue.model, queue.lane
        known = self._ordered.get(key)
        if known is not None and known.queue is queue and self._is_valid(known):
            return known
        if known is not None:
            self._forget(key)
        ordered = self._ordered[key] = self._order(queue, now, per_queue)
        self._key_of.update(dict.fromkeys(ordered.places, key))
        return ordered

    def _is_valid(self, ordered: _Ordered) -> bool:
        changed = self.use.changed
        return all(changed.get(person, 0) <= ordered.changes for person in ordered.persons)

    def _forget(self, key: QueueKey) -> None:
        for job_id in self._ordered.pop(key).places:
            self._key_of.pop(job_id, None)

    def _order(self, queue: QueueHead, now: float, per_queue: int) -> _Ordered:
        claims = [self._claim(job) for job in queue.heads]
        persons = frozenset(claim.person for claim in claims if claim.person is not None)
        overtakers = self._late.overtakers_of(queue)
        used_s, bound_s = self.use.used_s(persons, now), self._rules.overtaken_s
        late = self._late.by_the_clock(queue, claims, overtakers, now)
        order = fair_order(late, used_s, overtakers, bound_s)
        jobs = tuple(queue.heads[index] for index in order)
        self._coming.note(queue, now)
        moments = self._late.moments(queue)
        shown = [
            job if job.queued_at == at else replace(job, queued_at=at)
            for job, at in zip(jobs[:per_queue], moments, strict=False)
        ]
        return _Ordered(
            queue=queue,
            jobs=jobs,
            places={job.id: place for place, job in enumerate(jobs)},
            shown=replace(queue, heads=tuple(shown)),
            persons=persons,
            changes=self.use.changes,
            turns=turns_of(claims, order, used_s, overtakers, bound_s),
        )

    def newcomers(self, job: Job) -> Newcomers | None:
        """Return the jobs expected to arrive and start before a waiting job, or None if unknown."""
        key = self._key_of.get(job.id)
        if key is None:
            return None
        ordered = self._ordered[key]
        return self._coming.before(
            job, ordered.places[job.id], ordered.turns, ordered.jobs, self._clock.now()
        )

    def _claim(self, job: Job) -> Claim:
        spec = self._fleet.catalog.models.get(job.model)
        alone_s = self._cost_s(job) * (1 if spec is None else spec.parallel)
        cost_s = self._cost_s(job)
        person = None if job.moved else person_of(job)
        return Claim(job.seq or 0, person, cost_s, MARGIN * alone_s - cost_s)

    def _cost_s(self, job: Job) -> float:
        """Return the GPU seconds a job will probably take, on a GPU that runs as many as it can."""
        spec = self._fleet.catalog.models.get(job.model)
        if spec is None:
            return 0.0
        usual = self._times.durations.service(spec, "", size_class(job.request))
        return usual.median_s / spec.parallel

    # ------------------------------------------------------------ places

    async def positions(self, job_ids: Sequence[int]) -> Mapping[int, int]:
        """Return each job's position: 1 + the jobs of its model and lane that start first."""
        if not self.is_on:
            return await self._store.positions(job_ids)
        await self.queues(self._clock.now(), per_queue=self._per_queue)
        positions = dict(await self._store.positions(job_ids))
        for job_id in positions.keys() & self._key_of.keys():
            ordered = self._ordered[self._key_of[job_id]]
            positions[job_id] = len(ordered.queue.passed) + ordered.places[job_id] + 1
        return positions

    async def turns(
        self, job_ids: Sequence[int], *, begun: Collection[int]
    ) -> Mapping[int, StartOrder]:
        """Return the start order of waiting jobs, as the queues were last read."""
        turns = dict(await self._store.turns(job_ids, begun=begun))
        for job_id in turns.keys() & self._key_of.keys():
            if turns[job_id].number is not None:
                ordered = self._ordered[self._key_of[job_id]]
                place = ordered.places[job_id]
                gone = sum(ordered.places.get(each, place) < place for each in begun)
                number = 1 + place - gone
                turns[job_id] = replace(turns[job_id], number=number)
        return turns
