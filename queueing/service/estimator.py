"""Estimates when waiting and running jobs will be done.

It keeps one forecast of the newest snapshot, and the first estimate of each open job.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from queueing.core.events import Event, JobChanged
from queueing.core.jobs import Job, JobEvent, JobState
from queueing.core.ports import Clock
from queueing.core.snapshot import ModelView, Residency, Snapshot
from queueing.core.specs import ModelSpec
from queueing.core.status import Estimate
from queueing.engine.fair.fair_queues import FairQueues
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.fleet.learned_times import LearnedTimes
from queueing.engine.scheduler import Scheduler
from queueing.forecast.calibration import Category
from queueing.forecast.durations import DurationEstimate
from queueing.forecast.forecast import Expected, Forecast
from queueing.forecast.simulation import OVERDUE_SHARE
from queueing.planning.hosts import opens_for

FRESH_S = 1.0  # age of a forecast that serves for known jobs: a new one costs milliseconds
FRESH_FAR_S = 3.0  # the same if it looks far ahead, which costs most; serves new jobs too
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """When a job will probably start and end."""

    starts: Estimate
    ends: Estimate


@dataclass(frozen=True, slots=True)
class _FirstEstimate:
    """The first estimate of a job, its category, and when it was made."""

    category: Category
    given_at: float
    done_at: float


@dataclass(kw_only=True, eq=False, repr=False)
class Estimator:
    """Estimates times for people, and learns from each job how far off its first estimate was."""

    router: Scheduler
    fleet: Fleet
    times: LearnedTimes
    clock: Clock
    fair: FairQueues | None = None
    _forecast: Forecast | None = field(default=None, init=False)
    _snapshot: Snapshot | None = field(default=None, init=False)
    _newest_id: int = field(default=0, init=False)
    _first: dict[int, _FirstEstimate] = field(
        default_factory=dict, init=False
    )  # of open jobs, before they start
    _begun: dict[int, _FirstEstimate] = field(
        default_factory=dict, init=False
    )  # of running jobs, at their start

    def on_event(self, event: Event) -> None:
        """Record starts and score the estimates of completed jobs."""
        if isinstance(event, JobChanged) and event.event is not None:
            if event.event is JobEvent.START:
                self._note_start(event.job)
            elif event.job.state.final:
                self._score(event.job)

    def _note_start(self, job: Job) -> None:
        slot = self.fleet.jobs.slots.get(job.id)
        if slot is not None:
            category = self._category("", job.model, slot.backend, loads=False)
            self._begun[job.id] = _FirstEstimate(category, self.clock.now(), slot.ends_at)

    def _score(self, job: Job) -> None:
        for first in (self._first.pop(job.id, None), self._begun.pop(job.id, None)):
            if first is not None and job.state is JobState.COMPLETED:
                ended_at = job.finished_at or self.clock.now()
                self.times.came_true(first.category, first.given_at, first.done_at, ended_at)

    async def refresh(self, asked: Sequence[tuple[Job, int]]) -> None:
        """Ensure there is a forecast that covers these waiting jobs at their positions.

        An older forecast, or one without the newest jobs, is used if it looks far enough ahead.
        With thousands waiting, a new one for each arriving job would cost more than everything
        else. Raises `StoreError`.
        """
        newest_id = max((job.id for job, _ in asked), default=0)
        if not self._covers(asked, newest_id):
            self._look_at(await self.router.snapshot())
            self._newest_id = max(self._newest_id, newest_id)

    def _covers(self, asked: Sequence[tuple[Job, int]], newest_id: int) -> bool:
        if self._forecast is None or self._snapshot is None or self._was_starting(asked):
            return False
        if self._availability_changed(self._snapshot):
            return False
        age_s = self.clock.now() - self._snapshot.now
        if self._forecast.far:
            return age_s < FRESH_FAR_S and all(self._forecast.knows(job) for job, _ in asked)
        return age_s < FRESH_S and newest_id <= self._newest_id

    def look(self) -> None:
        """Ensure a recent forecast, made from the scheduler's last snapshot if necessary."""
        snapshot = self.router.latest
        if snapshot is None:
            return
        fresh_s = FRESH_FAR_S if self._forecast is not None and self._forecast.far else FRESH_S
        if (
            self._snapshot is None
            or self._availability_changed(self._snapshot)
            or self.clock.now() - self._snapshot.now >= fresh_s
        ):
            self._look_at(snapshot)

    def _was_starting(self, asked: Sequence[tuple[Job, int]]) -> bool:
        """Whether the forecast lacks a queue because a job of it was starting at that moment."""
        return self._forecast is not None and any(self._forecast.stands(job) for job, _ in asked)

    def _availability_changed(self, then: Snapshot) -> bool:
        """Whether servers have become usable or unusable since the forecast.

        Otherwise people would be promised a GPU that a game has just taken.
        """
        now = self.router.latest
        return now is not None and now.now >= then.now and _usable(now) != _usable(then)

    def _look_at(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._forecast = Forecast(snapshot, self._service)

    def of_waiting(self, job: Job, position: int) -> Outlook | None:
        """Return when a waiting job will start and end; None if that cannot be estimated."""
        if job.id in self.fleet.jobs.slots:
            return self.of_running(job)  # its start is being stored
        if self._forecast is None:
            return None
        now = self.clock.now()
        try:
            newcomers = None if self.fair is None else self.fair.newcomers(job)
            expected = self._forecast.of(job, position, now, newcomers)
        except Exception:  # estimates are optional: a fault must not hide the rest of the status
            log.exception("job %d: no estimate", job.id)
            return None
        if expected is None:
            return None
        late_s = max(0.0, now - expected.start_at)  # it cannot start in the past
        start_at, done_at = expected.start_at + late_s, expected.done_at + late_s
        category = self._category_of(job.lane, job.model, expected.backend)
        self._first.setdefault(job.id, _FirstEstimate(category, now, done_at))
        return Outlook(
            starts=self._estimate(category, now, start_at),
            ends=self._estimate(category, now, done_at),
        )

    def of_running(self, job: Job) -> Outlook | None:
        """Return when a running job will be done.

        None if its server has already finished it, has not begun it, or does not answer.
        """
        slot = self.fleet.jobs.slots.get(job.id)
        if slot is None or slot.held or not self.fleet.health.of(slot.backend).up:
            return None
        now = self.clock.now()
        category = self._category("", job.model, slot.backend, loads=False)
        done_at = slot.ends_at
        if done_at <= now:
            done_at = now + OVERDUE_SHARE * self._service(job, slot.backend).mean_s
        began_at = job.started_at or now
        return Outlook(
            starts=Estimate(at=began_at, earliest=began_at, latest=began_at),
            ends=self._estimate(category, now, done_at),
        )

    def _category_of(self, lane: str, model: str, backend: str) -> Category:
        loads = not any(
            copy.backend == backend and copy.residency is Residency.READY
            for copy in self.fleet.copies.of(model)
        )
        return self._category(lane, model, backend, loads=loads)

    def _category(self, lane: str, model: str, backend: str, *, loads: bool) -> Category:
        measured = self.times.is_measured(model, backend, load=loads)
        return Category(lane, loads, measured)

    def _estimate(self, category: Category, now: float, at: float) -> Estimate:
        span = self.times.calibration.range(category, now, at)
        return Estimate(
            at=at, earliest=span.earliest, latest=span.latest, measured=category.measured
        )

    def of_next(self, spec: ModelSpec) -> Estimate | None:
        """Return when a job accepted now would be done; None if that cannot be estimated."""
        snapshot = self.router.latest
        if snapshot is None:
            return None
        view = snapshot.models.get(spec.name)
        found = (
            self._after_queue(snapshot, view)
            if view is not None and view.waiting
            else self._at_once(spec)
        )
        if found is None:
            return None
        category = self._category_of("normal", spec.name, found.backend)
        return self._estimate(category, self.clock.now(), found.done_at)

    def _after_queue(self, snapshot: Snapshot, view: ModelView) -> Expected | None:
        queue = max(view.waiting, key=lambda waiting: waiting.count)
        if not queue.heads:
            return None
        head, position, now = queue.heads[0], queue.count + 1, self.clock.now()
        expected = None if self._forecast is None else self._forecast.of(head, position, now)
        if expected is None:
            expected = Forecast(snapshot, self._service).of(head, position, now)
        return expected

    def _at_once(self, spec: ModelSpec) -> Expected | None:
        """Return when a job of a model without a queue would be done."""
        usual_s = self.times.durations.typical_service(spec, "").median_s
        free = self._free_at(spec)
        if free is None:
            return None
        at, backend = free
        return Expected(start_at=at, done_at=at + usual_s, backend=backend)

    def _free_at(self, spec: ModelSpec) -> tuple[float, str] | None:
        """Return when and where a model without a queue could start a job: now, or after a load."""
        now = self.clock.now()
        copies = [c for c in self.fleet.copies.of(spec.name) if self.fleet.health.of(c.backend).up]
        moments = [
            (
                copy.backend,
                max(now, min(copy.ends_at, default=now) if copy.running else copy.ready_at)
                if copy.running >= spec.parallel or copy.residency is Residency.LOADING
                else now,
            )
            for copy in copies
            if copy.residency is not Residency.UNLOADING
        ]
        host_of = self.fleet.catalog.host_of
        moments += [
            (name, now + self.times.load_s(spec.name, name))
            for name in self.fleet.serving(spec)
            if self.fleet.health.of(name).up
            and not copies
            and all(map(self.fleet.memory.quiet, self.fleet.catalog.parts_of(spec, name)))
        ]
        moments += [
            (name, now + self.times.wake_s(host) + self.times.load_s(spec.name, name))
            for name in self.fleet.serving(spec)
            if self.fleet.rests.sleep.is_asleep(host := self.fleet.catalog.hosts[host_of[name]])
        ]
        opened = ((self._open_at(spec, name, at), name) for name, at in moments)
        return min(((at, name) for at, name in opened if at is not None), default=None)

    def _open_at(self, spec: ModelSpec, backend: str, at: float) -> float | None:
        """Return when a host can start a job that could otherwise start at `at`.

        None while another program has its GPU. After quiet hours the model must be loaded again.
        """
        service_s = self.times.durations.typical_service(spec, "").median_s
        opens_at: float | None = at
        for host in self.fleet.catalog.hosts_of[backend]:
            if opens_at is not None:
                opens_at = opens_for(self.fleet.rests.view(host), opens_at, service_s)
        if opens_at is None or opens_at == at:
            return opens_at
        return opens_at + self.times.load_s(spec.name, backend)

    def _service(self, job: Job, backend: str) -> DurationEstimate:
        return self.times.service(job, backend)


def _usable(snapshot: Snapshot) -> tuple[set[str], set[str]]:
    """Return the hosts and servers that can be used.

    Quiet hours do not count: forecasts include them.
    """
    hosts = {
        n for n, view in snapshot.hosts.items() if view.yields_since is None and not view.paused
    }
    return hosts, {n for n, view in snapshot.backends.items() if view.up and not view.paused}
