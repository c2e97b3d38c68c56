"""Ends jobs that waited too long, and starts others in time to meet their deadlines.

The forecast predicts when a job would be done if it were released now. It cannot predict that
another model takes the GPU first. The time for which a cutoff lets other models keep the GPU is
therefore added, and the work of the job's batch counts twice. Nor can it predict that a machine
falls asleep before then, so the time to wake is added for every machine that can be woken.

Deadlines are read from the store, so each takes effect once, even after a restart.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from queueing.core.concurrency import came
from queueing.core.errors import ProblemKind, StoreError, problem
from queueing.core.events import Event, JobChanged
from queueing.core.jobs import Job, JobEvent
from queueing.core.ports import Clock, doubt_of
from queueing.core.quiet_hours import QuietSpan
from queueing.core.snapshot import HostView, Rules, Snapshot
from queueing.core.specs import ModelSpec
from queueing.engine.deferred_jobs import DeferredJobs
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.fleet.learned_times import LearnedTimes
from queueing.engine.scheduler import Scheduler
from queueing.engine.snapshot_builder import SnapshotBuilder
from queueing.forecast.forecast import Forecast
from queueing.planning.hosts import LEAD_S, StartOption, sites
from queueing.planning.reservations import CLOSED_AFTER_LOADS, CROWD_SHARE, LOADS_IN_LIMIT
from queueing.planning.retry import pause_s
from queueing.service.job_submitter import LocalJobSubmitter
from queueing.service.queue_admin import LocalQueueAdmin
from queueing.store.jobs.job_store import JobStore

SLACK_S = 60.0
MOST_TURNS = 2  # turns of rivals: one with a host reserved, and one before it


class Rival(NamedTuple):
    """A model that may occupy another's GPU: its load time and longest job, and if it waits."""

    load_s: float
    service_s: float
    waits: bool


class Way(NamedTuple):
    """How a job can start on a server: the quiet hours of all its GPUs, and the delays before it.

    `kept_s` is how long others may occupy those GPUs: rivals, and a job of its own model that
    started just before its release. `wake_s` is how long their machine takes to wake.
    """

    quiet: tuple[QuietSpan, ...]
    load_s: float
    kept_s: float
    wake_s: float


def kept_s(load_s: float, rivals: Sequence[Rival], rules: Rules) -> float:
    """Return for how many seconds rivals may keep a model off a GPU that it needs."""
    if not rivals:
        return 0.0
    waiting = max(1, sum(rival.waits for rival in rivals))
    swap_s = load_s + max(rival.load_s for rival in rivals)
    longest_s = max(rival.service_s for rival in rivals)
    turn_s = (rules.patience + CLOSED_AFTER_LOADS) * swap_s + longest_s + load_s
    limit_s = rules.age_limit_s * CROWD_SHARE * waiting + LOADS_IN_LIMIT * load_s
    return limit_s + min(waiting, MOST_TURNS) * turn_s


def open_until(due_at: float, quiet: Iterable[QuietSpan], needed_s: float) -> float:
    """Return the effective deadline: before quiet hours if too little time is left after them."""
    for span in sorted(quiet, key=lambda each: each.begins_at, reverse=True):
        if span.begins_at - LEAD_S < due_at and due_at - span.ends_at < needed_s:
            due_at = min(due_at, span.begins_at - LEAD_S)
    return due_at


def surely_done_at(done_at: float, now: float, sites: Iterable[StartOption]) -> float:
    """Return a time by which a job is safely done although it takes turns with other models.

    Its wait may be twice as long as forecast, and does not advance in quiet hours.
    """
    wait_s = max(0.0, done_at - now)
    ends = [_after(done_at, wait_s, site.hosts) for site in sites if not _is_lent(site)]
    return min(ends, default=done_at + wait_s)


def _after(at: float, wait_s: float, hosts: Iterable[HostView]) -> float:
    """Return when all of these hosts have been open for `wait_s` in total."""
    coming = (quiet for host in hosts for quiet in host.quiet if quiet.ends_at > at)
    for quiet in sorted(coming, key=lambda each: each.begins_at):
        open_s = max(0.0, quiet.begins_at - LEAD_S - at)
        if wait_s <= open_s:
            break
        wait_s -= open_s
        at = max(at, quiet.ends_at)
    return at + wait_s


def _is_lent(site: StartOption) -> bool:
    return any(host.yields_since is not None for host in site.hosts)


def spare_s(done_at: float, due_at: float, way: Way, *, service_s: float, work_s: float) -> float:
    """Return how many more seconds a job can wait before its release.

    `done_at` is its end if it is released now. `work_s` is the work of the jobs before it in its
    batch. It counts twice, because other people's jobs may come in between.
    """
    needed_s = way.wake_s + way.load_s + service_s + 2 * work_s + way.kept_s
    by_at = open_until(due_at, way.quiet, needed_s)
    return by_at - done_at - work_s - way.kept_s - way.wake_s - SLACK_S


log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Slack:
    """Calculates how much longer each job with a deadline may wait."""

    router: Scheduler
    snapshots: SnapshotBuilder
    fleet: Fleet
    times: LearnedTimes
    clock: Clock

    async def spares(self, dated: Sequence[Job]) -> Mapping[int, float]:
        """Return by job id how many seconds it may wait before its release; negative if it is late.

        The jobs are in order of their deadlines. Those of one model are released in this order, so
        a job can wait no longer than the ones after it. Raises `StoreError`.
        """
        by_model: defaultdict[str, list[Job]] = defaultdict(list)
        for job in dated:
            if job.model in self.fleet.catalog.models:
                by_model[job.model].append(job)
        snapshot = await self.snapshots.with_later(self.router.plan, by_model)
        forecast = Forecast(snapshot, self.times.service)
        found = dict[int, float]()
        for model, jobs in by_model.items():
            try:
                found.update(self._of_model(model, jobs, forecast, snapshot))
            except Exception:  # a fault in an estimate must not end the queue or make a job late
                log.exception("%s: no estimate, so its jobs with a deadline may start now", model)
                found.update(dict.fromkeys((job.id for job in jobs), 0.0))
        return found

    def _of_model(
        self, model: str, jobs: Sequence[Job], forecast: Forecast, snapshot: Snapshot
    ) -> Mapping[int, float]:
        spec, now = self.fleet.catalog.models[model], self.clock.now()
        ways = [self._way(spec, site, snapshot) for site in sites(snapshot, snapshot.models[model])]
        load_s = self.times.durations.load(spec, "").median_s
        work_s, found = 0.0, list[float]()
        for number, job in enumerate(jobs, start=1):
            service_s, due_at = self.times.service(job, "").mean_s, job.due_at or 0.0
            soonest_at = now + load_s + work_s + service_s
            done_at = max(now + service_s, _done_at(forecast, job, number, soonest_at))
            spares = (
                spare_s(done_at, due_at, way, service_s=service_s, work_s=work_s) for way in ways
            )
            found.append(max(spares, default=due_at - done_at))
            work_s += service_s / spec.parallel
        for place in range(len(jobs) - 2, -1, -1):
            found[place] = min(found[place], found[place + 1])
        return {job.id: spare for job, spare in zip(jobs, found, strict=True)}

    def _way(self, spec: ModelSpec, site: StartOption, snapshot: Snapshot) -> Way:
        """Return the delays of a job on a server: on several GPUs, those of all of them."""
        load_s = self.times.load_s(spec.name, site.backend)
        own_s = self.times.durations.typical_service(spec, "").mean_s  # of one just started
        specs = [self.fleet.catalog.hosts[host.name] for host in site.hosts]
        return Way(
            quiet=tuple(quiet for host in site.hosts for quiet in host.quiet),
            load_s=load_s,
            kept_s=own_s + kept_s(load_s, self._rivals(spec, site, snapshot), snapshot.rules),
            wake_s=max(self.times.wake_s(host) for host in specs),
        )

    def _rivals(self, spec: ModelSpec, site: StartOption, snapshot: Snapshot) -> Sequence[Rival]:
        """Return the models that cannot share memory or run with this one on one of the hosts."""
        durations, there = self.times.durations, dict[str, ModelSpec]()
        for host in site.hosts:
            there |= self._competing_models(host)
        return [
            Rival(
                load_s=durations.load(other, "").median_s,
                service_s=durations.typical_service(other, "").mean_s,
                waits=bool((view := snapshot.models.get(other.name)) and view.waiting),
            )
            for other in there.values()
            if other is not spec and not self.fleet.rests.paused.stops_model(other.name)
        ]

    def _competing_models(self, host: HostView) -> Mapping[str, ModelSpec]:
        """Return the models that may load on a host; none if they all fit and run at once."""
        fleet, catalog = self.fleet, self.fleet.catalog
        needed_mb = {
            model.name: max(needs)
            for model in catalog.models.values()
            if (
                needs := [mb for name in fleet.serving(model) for mb in self._mb(model, name, host)]
            )
        }
        serial = any(backend.serial for backend in catalog.hosts[host.name].backends)
        if not serial and sum(needed_mb.values()) <= host.usable_mb:
            return {}
        return {name: catalog.models[name] for name in needed_mb}

    def _mb(self, model: ModelSpec, backend: str, host: HostView) -> Sequence[int]:
        """Return the MB a model takes on a host, empty if its server does not place it there."""
        memory = self.fleet.memory
        if host.name not in self.fleet.catalog.parts_of(model, backend):
            return ()
        return (dict(memory.shares(model, backend)).get(host.name, memory.vram_mb(model)),)


def _done_at(forecast: Forecast, job: Job, number: int, soonest_at: float) -> float:
    """Return when a job would be done, or `soonest_at` if that cannot be estimated."""
    try:
        expected = forecast.of(job, number)
    except Exception:  # a fault in an estimate must not delay the job
        log.exception("job %d: no estimate", job.id)
        return soonest_at
    return soonest_at if expected is None else expected.done_at


LOOK_S = 30.0  # while jobs with a deadline wait, because other jobs change when they must start
LOOK_MOST_S = 600.0

_COMING = (None, JobEvent.RETRY, JobEvent.RELEASE)


@dataclass(kw_only=True, eq=False, repr=False)
class DeadlineWatcher:
    """Acts when jobs expire, and when they must start to meet their deadline."""

    jobs: JobStore
    submitter: LocalJobSubmitter
    admin: LocalQueueAdmin
    later: DeferredJobs
    urgency: Slack
    clock: Clock
    _awake: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    # ids of urgent jobs, in the order they were moved first
    _order: list[int] = field(default_factory=list, init=False)

    def on_event(self, event: Event) -> None:
        """Check again when a job with a deadline arrives, or returns to its queue."""
        if isinstance(event, JobChanged) and event.event in _COMING:
            job = event.job
            if job.expires_at is not None or job.due_at is not None:
                self._awake.set()

    async def run(self) -> None:
        """Watch deadlines until cancelled."""
        failures = 0
        while True:
            self._awake.clear()
            try:
                next_at = await self._look()
            except StoreError as error:
                failures += 1
                log.warning("cannot check for expired jobs: %s", error)
                await asyncio.sleep(pause_s(failures))
                continue
            failures = 0
            rest_s = None if next_at is None else max(0.0, next_at - self.clock.now())
            await came(self._awake, rest_s)

    async def _look(self) -> float | None:
        """Act on what is due. Returns when to check again, None if no job has a deadline."""
        if doubt_of(self.clock) is not None:
            return self.clock.now() + LOOK_S
        for job in await self.jobs.expired(self.clock.now()):
            waited = round((self.clock.now() - job.queued_at) / 60)
            log.info("job %d: waited %d min without starting", job.id, waited)
            await self.submitter.give_up(job.id, problem(ProblemKind.WAITED, minutes=waited))
        urged_at = await self._urge()
        moments = [at for at in (await self.jobs.next_expiry(), urged_at) if at is not None]
        return min(moments, default=None)

    async def _urge(self) -> float | None:
        """Move jobs that must start now to the front. Returns when to check again."""
        dated = [job for job in await self.jobs.dated() if not job.held]
        urged = self.later.urged
        urged &= {job.id for job in dated}
        if all(job.id in urged for job in dated):
            return None
        spares = await self.urgency.spares(dated)
        urged |= {job_id for job_id, spare_s in spares.items() if spare_s <= 0}
        await self._put_first([job for job in dated if job.id in urged])
        left_s = [spare_s for job_id, spare_s in spares.items() if job_id not in urged]
        if not left_s:
            return None
        return self.clock.now() + min(LOOK_MOST_S, max(LOOK_S, min(left_s) / 2))

    async def _put_first(self, jobs: Sequence[Job]) -> None:
        """Move jobs before all others of their queues, in this order."""
        order = [job.id for job in jobs]
        if order != [job_id for job_id in self._order if job_id in set(order)]:
            for job_id in reversed(order):
                await self.admin.move_first(job_id)
        self._order = order
