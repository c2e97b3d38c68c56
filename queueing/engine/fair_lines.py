"""Fair lines: the lines of the store in the order in which people's fair turns come.

The planner is shown the same moments of arrival at the same places as without this: which model has
its turn when is decided as ever, and only whose job takes a turn is another matter.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import inf

from queueing.core.events import Event, JobChanged
from queueing.core.jobs import Job, JobEvent
from queueing.core.ports import Clock
from queueing.core.storage import Line, Lines, QuarterUse, StartOrder
from queueing.core.world import Rules
from queueing.engine.durations import Times
from queueing.engine.fleet import Fleet
from queueing.engine.recent_use import RecentUse, person_of
from queueing.planning.fairness import Claim, Overtaker, behind_by, fair_order
from queueing.planning.newcomers import Comings, Newcomers, going_first
from queueing.planning.sizes import size_class

WINDOW = 500  # jobs of a line that are put in order; those behind them keep the order of arrival

MARGIN = 1.5  # times its usual time, a slot may be taken by a start

_Key = tuple[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ordered:
    """A line in its fair order; it holds while the line and its people's use are the same."""

    line: Line
    jobs: tuple[Job, ...]
    places: Mapping[int, int]
    shown: Line
    persons: frozenset[str]
    changes: int
    used_s: tuple[float, ...]  # by place: what its person will have used by then
    spare_s: tuple[float, ...]  # by place: how much more may go first


class FairLines:
    """`Lines` in fair order once it has begun, for rules that say so; otherwise as they are."""

    def __init__(
        self, lines: Lines, *, fleet: Fleet, times: Times, clock: Clock, rules: Rules
    ) -> None:
        self._lines = lines
        self._fleet = fleet
        self._times = times
        self._clock = clock
        self._rules = rules
        self.use = RecentUse(rules.lane_weights)
        self._ordered: dict[_Key, _Ordered] = {}
        self._overtakers: dict[_Key, dict[int, Overtaker]] = {}
        self._busy_until: dict[_Key, float] = {}  # when the last start has been worked off
        self._late_since: dict[_Key, dict[int, float]] = {}
        self._key_of: dict[int, _Key] = {}  # of the jobs in order
        self._arrived: dict[_Key, Comings] = {}
        self._newest: dict[_Key, int] = {}  # the last job of each line that was noted there
        self._restored: set[_Key] = set()  # lines with jobs that an earlier run let go first
        self._per_line = 1
        self.is_on = False

    @property
    def is_wanted(self) -> bool:
        """Whether the rules say so."""
        return self._rules.order == "fair"

    def begin(
        self, used: Iterable[QuarterUse], running: Iterable[Job], passed: Iterable[Job] = ()
    ) -> None:
        """Put lines in order from now on, by what people used of late and what runs.

        `passed` are ended jobs that went before some that wait: those are as late as before.
        """
        self.is_on = True
        self.use.restore(used)
        for job in passed:
            self._goes_before(job, self._cost_s(job))
            self._restored.add((job.model, job.lane))
        for job in running:
            self.began(job)

    def _leave_off(self) -> None:
        """Leave lines in the order of arrival, and forget what was counted."""
        self.is_on = False
        self.use = RecentUse(self._rules.lane_weights)
        for state in (self._ordered, self._overtakers, self._busy_until, self._late_since):
            state.clear()
        self._restored.clear()
        self._arrived.clear()
        self._newest.clear()
        self._key_of.clear()

    def follow(self, rules: Rules) -> None:
        """Order by other rules; what was used until now counts as it did."""
        self._rules = rules
        self.use.weigh(rules.lane_weights)
        self._ordered.clear()
        self._key_of.clear()
        if self.is_on and not self.is_wanted:
            self._leave_off()

    def on_event(self, event: Event) -> None:
        """Follow what starts and ends."""
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
        if job.seq is not None:
            self._goes_before(job, cost_s)
            self._busy_until[job.model, job.lane] = self._clock.now() + cost_s

    def _goes_before(self, job: Job, cost_s: float) -> None:
        overtakers = self._overtakers.setdefault((job.model, job.lane), {})
        overtakers[job.id] = Overtaker(job.seq or 0, cost_s)

    def _end(self, job: Job, taken_s: float) -> None:
        self.use.ended(job, taken_s, self._clock.now())
        overtakers = self._overtakers.get((job.model, job.lane), {})
        if taken_s and job.id in overtakers:
            overtakers[job.id] = overtakers[job.id]._replace(cost_s=taken_s)

    # ------------------------------------------------------------ lines

    async def lines(self, now: float, *, per_line: int) -> list[Line]:
        """Return every line with its first startable jobs in fair order."""
        if not self.is_on:
            return await self._lines.lines(now, per_line=per_line)
        self._per_line = per_line
        found = await self._lines.lines(now, per_line=max(WINDOW, per_line))
        keys = {(line.model, line.lane) for line in found}
        for gone in self._ordered.keys() - keys:
            self._forget(gone)
        for state in (self._overtakers, self._busy_until, self._late_since):
            for gone in state.keys() - keys:
                del state[gone]
        return [self._of(line, now, per_line).shown for line in found]

    def real(self, job: Job) -> Job:
        """Return a job of a line with its own moment of arrival."""
        ordered = self._ordered.get((job.model, job.lane))
        place = None if ordered is None else ordered.places.get(job.id)
        return job if ordered is None or place is None else ordered.jobs[place]

    def _of(self, line: Line, now: float, per_line: int) -> _Ordered:
        key = line.model, line.lane
        known = self._ordered.get(key)
        if known is not None and known.line is line and self._holds(known):
            return known
        if known is not None:
            self._forget(key)
        ordered = self._ordered[key] = self._order(line, now, per_line)
        self._key_of.update(dict.fromkeys(ordered.places, key))
        return ordered

    def _holds(self, ordered: _Ordered) -> bool:
        changed = self.use.changed
        return all(changed.get(person, 0) <= ordered.changes for person in ordered.persons)

    def _forget(self, key: _Key) -> None:
        for job_id in self._ordered.pop(key).places:
            self._key_of.pop(job_id, None)

    def _order(self, line: Line, now: float, per_line: int) -> _Ordered:
        claims = [self._claim(job) for job in line.heads]
        persons = frozenset(claim.person for claim in claims if claim.person is not None)
        overtakers = self._overtakers_of(line)
        order = fair_order(
            self._with_lateness(line, claims, overtakers, now),
            self.use.used_s(persons, now),
            overtakers,
            self._rules.overtaken_s,
        )
        jobs = tuple(line.heads[index] for index in order)
        used = self._used_by_turn([claims[index] for index in order], persons, now)
        self._note_arrivals(line, now)
        moments = sorted(job.queued_at for job in line.heads)
        shown = [
            job if job.queued_at == at else replace(job, queued_at=at)
            for job, at in zip(jobs[:per_line], moments, strict=False)
        ]
        return _Ordered(
            line=line,
            jobs=jobs,
            places={job.id: place for place, job in enumerate(jobs)},
            shown=replace(line, heads=tuple(shown)),
            persons=persons,
            changes=self.use.changes,
            used_s=used,
            spare_s=self._spare_s(claims, order, overtakers),
        )

    def _used_by_turn(
        self, claims: Sequence[Claim], persons: frozenset[str], now: float
    ) -> tuple[float, ...]:
        """Return what each job's person will have used by its turn, in the order of the turns."""
        used = dict[str | None, float](self.use.used_s(persons, now).items())
        used[None] = -inf
        found = []
        for claim in claims:
            found.append(used[claim.person])
            used[claim.person] += claim.cost_s
        return tuple(found)

    def _note_arrivals(self, line: Line, now: float) -> None:
        """Note those who have come since the line was last put in order."""
        key = line.model, line.lane
        arrived = self._arrived.setdefault(key, Comings(now))
        last = self._newest.get(key, 0)
        for job in line.heads:
            person = person_of(job)
            if job.id > last and person is not None:
                arrived.note(person, job.queued_at)
        self._newest[key] = max(last, max((job.id for job in line.heads), default=0))

    def _spare_s(
        self, claims: Sequence[Claim], order: Sequence[int], overtakers: Collection[Overtaker]
    ) -> tuple[float, ...]:
        """Return how much more than what goes first now may go first, in the order of the turns."""
        behind = behind_by(claims, overtakers)
        before = accumulate((claims[index].cost_s for index in order), initial=0.0)
        return tuple(
            max(0.0, self._rules.overtaken_s - behind[index] - placed_s)
            for index, placed_s in zip(order, before, strict=False)
        )

    def newcomers(self, job: Job) -> Newcomers | None:
        """Return who will yet come and go before a waiting job; None if that is not known."""
        key = self._key_of.get(job.id)
        if key is None:
            return None
        ordered, now = self._ordered[key], self._clock.now()
        place, person = ordered.places[job.id], person_of(job)
        rates = self._arrived[key].per_s(now)
        levels = self._levels(ordered, rates.keys(), now)
        others = [(per_s, levels[each]) for each, per_s in rates.items() if each != person]
        first = going_first(others, ordered.used_s[place], self._cost_s(job))
        return Newcomers(first, ordered.spare_s[place])

    def _levels(self, ordered: _Ordered, persons: Iterable[str], now: float) -> Mapping[str, float]:
        """Return what people will have used when all of theirs that wait have started."""
        levels = dict(self.use.used_s(persons, now))
        for job in ordered.jobs:
            person = person_of(job)
            if person in levels:
                levels[person] += self._cost_s(job)
        return levels

    def _overtakers_of(self, line: Line) -> Collection[Overtaker]:
        """Return what has started and can have overtaken a job of the line; forget the rest."""
        key = line.model, line.lane
        if key in self._restored:
            self._restored.discard(key)
            self._let_come(line)
        first = min((job.seq or 0 for job in line.heads), default=0)
        kept = {
            job_id: each
            for job_id, each in self._overtakers.get(key, {}).items()
            if each.seq > first
        }
        self._overtakers[key] = kept
        return kept.values()

    def _let_come(self, line: Line) -> None:
        """Let what went before by an earlier run go before those who wait now, and no one to come.

        After a restart, places are given again that jobs had which went before others and ended.
        """
        last = 1 + max((job.seq or 0 for job in line.heads), default=0)
        overtakers = self._overtakers.get((line.model, line.lane), {})
        if len(line.heads) == line.waiting:
            for job_id, each in overtakers.items():
                overtakers[job_id] = each._replace(seq=min(each.seq, last))

    def _with_lateness(
        self, line: Line, claims: Sequence[Claim], overtakers: Collection[Overtaker], now: float
    ) -> Sequence[Claim]:
        """Return the claims with how late each is by the clock, and remember since when."""
        key = line.model, line.lane
        known = self._late_since.get(key, {})
        until = self._busy_until.get(key, now)
        since = {
            job.id: known.get(job.id, until - behind_s)
            for job, behind_s in zip(line.heads, behind_by(claims, overtakers), strict=True)
            if behind_s > 0
        }
        self._late_since[key] = since
        return [
            claim._replace(late_s=now - since[job.id]) if job.id in since else claim
            for job, claim in zip(line.heads, claims, strict=True)
        ]

    def _claim(self, job: Job) -> Claim:
        spec = self._fleet.catalog.models.get(job.model)
        alone_s = self._cost_s(job) * (1 if spec is None else spec.parallel)
        cost_s = self._cost_s(job)
        person = None if job.moved else person_of(job)
        return Claim(job.seq or 0, person, cost_s, MARGIN * alone_s - cost_s)

    def _cost_s(self, job: Job) -> float:
        """Return what a job will probably take of a card that runs as many as it can."""
        spec = self._fleet.catalog.models.get(job.model)
        if spec is None:
            return 0.0
        usual = self._times.durations.service(spec, "", size_class(job.request))
        return usual.median_s / spec.parallel

    # ------------------------------------------------------------ places

    async def positions(self, job_ids: Sequence[int]) -> Mapping[int, int]:
        """Return 1 + the number of jobs that wait and start first in the same model and lane."""
        if not self.is_on:
            return await self._lines.positions(job_ids)
        await self.lines(self._clock.now(), per_line=self._per_line)
        positions = dict(await self._lines.positions(job_ids))
        for job_id in positions.keys() & self._key_of.keys():
            ordered = self._ordered[self._key_of[job_id]]
            positions[job_id] = len(ordered.line.passed) + ordered.places[job_id] + 1
        return positions

    async def turns(
        self, job_ids: Sequence[int], *, begun: Collection[int]
    ) -> Mapping[int, StartOrder]:
        """Return where waiting jobs with a place stand, as the lines were last read."""
        turns = dict(await self._lines.turns(job_ids, begun=begun))
        for job_id in turns.keys() & self._key_of.keys():
            if turns[job_id].number is not None:
                ordered = self._ordered[self._key_of[job_id]]
                place = ordered.places[job_id]
                gone = sum(ordered.places.get(each, place) < place for each in begun)
                number = 1 + place - gone
                turns[job_id] = replace(turns[job_id], number=number)
        return turns
