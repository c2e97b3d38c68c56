"""Builds snapshots for the planner from the store, the fleet and learned times.

Caches what has not changed, and changes nothing itself.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from queueing.core.catalog import Offers
from queueing.core.constructors import quick
from queueing.core.jobs import LATER, Job
from queueing.core.ports import Backend, Clock
from queueing.core.snapshot import (
    BackendView,
    HostView,
    ModelView,
    Plan,
    QueueHead,
    Residency,
    Rules,
    Snapshot,
    Waiting,
)
from queueing.core.specs import ModelSpec, Shares
from queueing.engine.deferred_jobs import DeferredJobs
from queueing.engine.fair.fair_queues import FairQueues
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.fleet.learned_times import LearnedTimes
from queueing.engine.job_runner import JobRunner

_ON_ONE: Mapping[str, Shares] = {}
_model_view, _backend_view = quick(ModelView), quick(BackendView)  # every step builds them all
HEADS_PER_QUEUE = 8  # most starts from one queue in one step; the next step follows at once
_HEADS_MOST = 64  # the most for models that run more than `HEADS_PER_QUEUE` jobs at a time


@dataclass(kw_only=True, eq=False, repr=False)
class SnapshotBuilder:
    """Takes snapshots for the scheduler and the forecast, thousands of times an hour."""

    fleet: Fleet
    backends: Mapping[str, Backend]
    processor: JobRunner
    times: LearnedTimes
    clock: Clock
    rules: Rules
    later: DeferredJobs
    fair: FairQueues
    offers: Offers
    _shown: dict[tuple[str, str], tuple[QueueHead, list[int], Waiting]] = field(
        default_factory=dict, init=False
    )

    def follow(self, rules: Rules) -> None:
        """Use other planning rules from now on."""
        self.rules = rules

    async def take(self, last: Plan) -> Snapshot:
        """Take a snapshot, carrying over reservations and lane shares from the last plan.

        Raises `StoreError`.
        """
        now = self.clock.now()
        queues = await self.fair.queues(now, per_queue=self._per_queue())
        return self._snapshot(now, queues, last)

    def _per_queue(self) -> int:
        """Return how many jobs to read from the head of each queue: as many as one copy can run."""
        return max(HEADS_PER_QUEUE, min(self.fleet.catalog.widest, _HEADS_MOST))

    async def with_preload(self, last: Plan, model: str, backend: str) -> Snapshot:
        """Return a snapshot in which an admin wants a model on a backend."""
        snapshot = await self.take(last)
        known = snapshot.models.get(model)
        waiting = known.waiting if known is not None else ()
        wanted = self._model(model, snapshot.now, waiting, [(model, backend)])
        return replace(snapshot, models={**snapshot.models, model: wanted})

    async def with_later(self, last: Plan, later: Mapping[str, Sequence[Job]]) -> Snapshot:
        """Return a snapshot in which these jobs, in this order, replace the deferred jobs."""
        snapshot = await self.take(last)
        models = dict(snapshot.models)
        for name in dict.fromkeys((*models, *later)):  # a set's order varies between runs
            jobs, known = later.get(name, ()), models.get(name)
            waiting = tuple(w for w in (known.waiting if known else ()) if w.lane != LATER)
            if jobs:
                waiting = (*waiting, _queue_of(jobs, self._per_queue()))
            if known is None:
                models[name] = self._model(name, snapshot.now, waiting, ())
            else:
                models[name] = replace(known, waiting=waiting)
        return replace(snapshot, models=models)

    def real(self, plan: Plan) -> Plan:
        """Replace the jobs in a plan with the real ones: a fair order alters their times."""
        if not self.fair.is_on or not plan.starts:
            return plan
        starts = (replace(start, job=self.fair.real(start.job)) for start in plan.starts)
        return replace(plan, starts=tuple(starts))

    def _snapshot(self, now: float, queues: Sequence[QueueHead], last: Plan) -> Snapshot:
        waiting: dict[str, list[Waiting]] = {}
        known = [queue for queue in queues if queue.model in self.fleet.catalog.models]
        for queue in known:
            if queue.lane != LATER:
                waiting.setdefault(queue.model, []).append(self._waiting(queue))
        later = [queue for queue in known if queue.lane == LATER]
        for queue in self.later.shown(later, waiting) if later else ():
            waiting.setdefault(queue.model, []).append(self._waiting(queue))
        unmet = self.fleet.copies.pins.wanted()
        return Snapshot(
            now=now,
            models={
                name: self._model(name, now, tuple(waiting.get(name, ())), unmet)
                for name in self._in_play(waiting)
            },
            hosts=self._hosts(),
            backends=self._backend_views(),
            copies=self.fleet.copies.view,
            reservations=last.reservations,
            lane_spent=last.lane_spent,
            rules=self.rules,
            job_s=self._job_s(queues),
        )

    # ------------------------------------------------------------ models

    def _in_play(self, waiting: Iterable[str]) -> Iterable[str]:
        """Return the models that have waiting jobs, copies or pins, each once.

        Where hosts load ahead, models that were requested are among them.
        """
        catalog = self.fleet.catalog
        copies = (copy.model for copy in self.fleet.copies)
        pins = sorted(m for m, _ in self.fleet.copies.pins)
        asked = self.times.rates.models() if catalog.loads_ahead else ()
        known = (name for name in asked if name in catalog.models)
        return dict.fromkeys((*waiting, *copies, *pins, *known))

    def _model(
        self,
        name: str,
        now: float,
        waiting: tuple[Waiting, ...],
        unmet: Sequence[tuple[str, str]],
    ) -> ModelView:
        spec = self.fleet.catalog.spec_of(name)
        backends = self.fleet.serving(spec)
        loads_s, services_s = self.times.tables(spec, backends)
        paused = self.fleet.rests.paused.stops_model(name)
        return _model_view(
            name=name,
            vram_mb=self.fleet.memory.vram_mb(spec),
            backends=backends,
            parallel=spec.parallel,
            copies=spec.copies,
            load_s=loads_s,
            service_s=services_s,
            rate_per_s=self.times.rates.per_s(name, now),
            left_at=self.fleet.copies.left_at(name),
            load_after=self.fleet.load_failures.of(name).until,
            paused=paused,
            waiting=waiting,
            wanted_by_admin=() if paused else tuple([b for m, b in unmet if m == name]),
            shares=self._shares(spec, backends),
            ahead_until=self._ahead_until(spec) if self.fleet.catalog.loads_ahead else 0.0,
        )

    def _ahead_until(self, spec: ModelSpec) -> float:
        """Return until when a model may be loaded ahead: as long as an idle copy would have stayed.

        One that has left for another reason than room, such as by an admin, first waits for a
        request. One that nobody may use any more is not loaded ahead.
        """
        if not self.offers(self.fleet.catalog, spec.name):
            return 0.0
        asked_at = self.times.rates.last_at(spec.name)
        if asked_at <= self.fleet.copies.set_aside_at(spec.name):
            return 0.0
        kept_s = [self.fleet.catalog.idle_unload_s(spec.name, name) for name in spec.backends]
        return asked_at + max(kept_s, default=0.0)

    def _shares(self, spec: ModelSpec, backends: Sequence[str]) -> Mapping[str, Shares]:
        if not self.fleet.catalog.has_gpus:
            return _ON_ONE
        found = {name: self.fleet.memory.shares(spec, name) for name in backends}
        return {name: shares for name, shares in found.items() if shares}

    def _waiting(self, queue: QueueHead) -> Waiting:
        """Convert a queue for the planner.

        Stops before the first job whose last attempt has not been cleaned up. That job may have
        just returned to its place, so it must neither start twice nor be overtaken.
        """
        under_way = self.processor.under_way
        key = queue.model, queue.lane
        shown = self._shown.get(key)
        if shown is not None and shown[0] is queue and under_way.isdisjoint(shown[1]):
            return shown[2]
        ids = [job.id for job in queue.heads]
        if under_way.isdisjoint(ids):
            waiting = self._with_heads(queue, queue.heads)
            self._shown[key] = queue, ids, waiting
            return waiting
        heads = takewhile(lambda job: job.id not in under_way, queue.heads)
        return self._with_heads(queue, tuple(heads))

    @staticmethod
    def _with_heads(queue: QueueHead, heads: tuple[Job, ...]) -> Waiting:
        return Waiting(
            lane=queue.lane,
            count=queue.waiting,
            heads=heads,
            oldest_at=queue.first_queued_at,
            next_start_at=queue.next_start_at,
            held=queue.held,
        )

    def _job_s(self, queues: Sequence[QueueHead]) -> dict[tuple[int, str], float]:
        """Return how long the first waiting jobs take on hosts with quiet hours.

        Includes the spread, because a job that ends in time only on average could overrun.
        """
        catalog = self.fleet.catalog
        quiet = {
            backend.name
            for host in catalog.hosts.values()
            if host.quiet is not None
            for backend in host.backends
        }
        if not quiet:
            return {}
        return {
            (job.id, backend): (usual := self.times.service(job, backend)).mean_s + usual.spread_s
            for queue in queues
            if queue.model in catalog.models
            for job in queue.heads
            for backend in catalog.models[queue.model].backends
            if backend in quiet
        }

    # ------------------------------------------------------------ hosts and backends

    def _hosts(self) -> dict[str, HostView]:
        return {name: self.fleet.rests.view(name) for name in self.fleet.catalog.hosts}

    def _backend_views(self) -> dict[str, BackendView]:
        running: defaultdict[str, list[Job]] = defaultdict(list)
        for slot in self.fleet.jobs.slots.values():
            running[slot.backend].append(slot.job)
        return {name: self._backend(name, running[name]) for name in self.backends}

    def _is_up(self, name: str, host: str) -> bool:
        """Return whether to plan with a backend. One whose host is waking counts as up."""
        spec, sleep = self.fleet.catalog.hosts[host], self.fleet.rests.sleep
        if sleep.waking_until(spec) is not None:
            return True
        return self.fleet.health.of(name).up and not sleep.is_asleep(spec)

    def _backend(self, name: str, running: Sequence[Job]) -> BackendView:
        catalog, adapter = self.fleet.catalog, self.backends[name]
        spec, health, hosts = (
            catalog.backends[name],
            self.fleet.health.of(name),
            catalog.hosts_of[name],
        )
        moving = spec.serial and any(
            copy.backend == name and copy.residency is not Residency.READY
            for copy in self.fleet.copies
        )
        return _backend_view(
            name=name,
            host=hosts[0],
            hosts=hosts if len(hosts) > 1 else (),
            up=self._is_up(name, hosts[0]),
            since=health.since,
            key_refused=health.key_refused,
            serial=spec.serial,
            parallel=spec.parallel,
            busy=len(running) + moving,
            max_models=spec.max_models,
            unloads_together=adapter.unloads_together,
            can_unload=adapter.can_unload,
            stops_loads=adapter.stops_loads,
            paused=any(self.fleet.rests.paused.stops_host(each) for each in hosts),
            alone=any(job.suspect for job in running),
        )


def _queue_of(jobs: Sequence[Job], per_queue: int) -> Waiting:
    return Waiting(
        lane=LATER,
        count=len(jobs),
        heads=tuple(jobs[:per_queue]),
        oldest_at=min(job.queued_at for job in jobs),
    )
