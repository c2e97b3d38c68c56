"""Decides when deferred jobs may run: when nothing else waits, or when their deadline requires it.

Deferred jobs have a separate lane, `later`. The planner does not see it while other jobs wait for
the same hosts, or are likely to wait because of it.

A deferred job may cause a load once two conditions are met. The model to be evicted has been idle
for as long as its own load takes, and it will probably not be needed until the deferred job is
done. A queue that has waited for an hour may cause a load in any pause of the host, and then waits
another hour before it does so again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

from queueing.core.jobs import Job
from queueing.core.ports import Clock
from queueing.core.snapshot import Copy, QueueHead, WaitCause, Waiting
from queueing.core.specs import ModelSpec
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.fleet.learned_times import LearnedTimes

# Counts from a queue's first deferred job, or from its last load in a short pause.
PATIENCE_S = 3600.0
# An evicted model is missed if this many requests are expected before it could be loaded again.
LIKELY = 0.5


class Leaver(NamedTuple):
    """An idle model that would be evicted: its idle time, request rate and load time."""

    idle_s: float
    rate_per_s: float
    load_s: float


def may_leave(leaver: Leaver, in_the_way_s: float) -> bool:
    """Return whether evicting a model for a deferred job will probably delay nobody.

    `in_the_way_s` is how long the deferred job takes to load and run.
    """
    missed = leaver.rate_per_s * (in_the_way_s + leaver.load_s)
    return leaver.idle_s >= leaver.load_s and missed < LIKELY


def takes_any_pause(first_queued_at: float, took_at: float, now: float) -> bool:
    """Return whether a queue has waited for so long that it may cause a load in any pause.

    `took_at` is when it last did.
    """
    return now - max(first_queued_at, took_at) >= PATIENCE_S


_WAKES = (WaitCause.ASLEEP, WaitCause.WAKING)


class DeferredJobs:
    """Decides which deferred jobs the planner sees; `urged` holds the ids that must begin now."""

    def __init__(self, fleet: Fleet, times: LearnedTimes, clock: Clock) -> None:
        self._fleet = fleet
        self._times = times
        self._clock = clock
        self.urged: set[int] = set()
        self._queues: set[str] = set()  # models with deferred jobs
        self._open: set[str] = set()  # the models whose deferred jobs are all shown
        self._impatient: set[str] = set()  # models shown because they have waited `PATIENCE_S`
        self._took_at: dict[str, float] = {}  # by model: start of its last such load in this run

    def shown(
        self, later: Sequence[QueueHead], waiting: Mapping[str, Sequence[Waiting]]
    ) -> Sequence[QueueHead]:
        """Return the queues of deferred jobs that the planner may see, some perhaps shortened."""
        self._note_pauses()
        self._queues = {queue.model for queue in later}
        taken = set[str]()
        for model, queues in waiting.items():
            if any(queue.heads for queue in queues) and not self._fleet.rests.paused.stops_model(
                model
            ):
                taken |= self._could_begin_on(self._fleet.catalog.models[model])
        self._open = {each.model for each in later if self._is_open(each, taken)}
        seen = [self._visible_part(queue, alone=queue.model not in waiting) for queue in later]
        return [each for each in seen if each.heads or each.model in self._open]

    def _note_pauses(self) -> None:
        """Record the loads that queues caused after waiting for `PATIENCE_S`."""
        for model in self._impatient:
            if self._fleet.copies.of(model):
                self._took_at[model] = self._clock.now()
        self._impatient.clear()

    def _is_open(self, queue: QueueHead, taken: set[str]) -> bool:
        spec = self._fleet.catalog.models[queue.model]
        if not taken.isdisjoint(self._hosts(spec)):
            return False
        if self._fleet.copies.of(spec.name) or self._delays_nobody(spec):
            return True
        took_at = self._took_at.get(spec.name, 0.0)
        if takes_any_pause(queue.first_queued_at, took_at, self._clock.now()):
            self._impatient.add(spec.name)
        return spec.name in self._impatient

    def _visible_part(self, queue: QueueHead, *, alone: bool) -> QueueHead:
        if queue.model in self._open:
            return queue
        heads = tuple(job for job in queue.heads if job.id in self.urged)
        if not heads and alone and self._has_unused_copy(queue.model):
            heads = queue.heads[:1]
        return replace(queue, waiting=len(heads), heads=heads)

    def is_shown(self, job: Job) -> bool:
        """Return whether the planner sees a deferred job, so that it may begin."""
        return job.model in self._open or job.id in self.urged

    # ------------------------------------------------------------ who else wants the hosts

    def _hosts(self, spec: ModelSpec) -> frozenset[str]:
        catalog = self._fleet.catalog
        return frozenset(
            host for name in self._fleet.serving(spec) for host in catalog.parts_of(spec, name)
        )

    def _could_begin_on(self, spec: ModelSpec) -> frozenset[str]:
        """Return the hosts on which waiting jobs of a model can begin as things are.

        Excludes hosts that rest or whose server is down: they must not keep deferred jobs from
        running.
        """
        fleet = self._fleet
        return frozenset(
            host
            for name in fleet.serving(spec)
            for host in fleet.catalog.parts_of(spec, name)
            if self._is_usable(name, host)
        )

    def _is_usable(self, backend: str, host: str) -> bool:
        fleet = self._fleet
        if fleet.rests.paused.stops_host(host):
            return False
        rests = fleet.rests.why(host)
        if rests is not None:
            return rests.why in _WAKES
        return fleet.health.of(backend).up

    # ------------------------------------------------------------ what a load would put out

    def _delays_nobody(self, spec: ModelSpec) -> bool:
        """Return whether a load for deferred jobs of a model probably delays nobody."""
        now, durations = self._clock.now(), self._times.durations
        in_the_way_s = (
            durations.load(spec, "").median_s + durations.typical_service(spec, "").median_s
        )
        return any(
            all(
                may_leave(self._leaver(copy, now), in_the_way_s)
                for copy in self._eviction_candidates(spec, backend)
            )
            for backend in self._fleet.serving(spec)
        )

    def _eviction_candidates(self, spec: ModelSpec, backend: str) -> Sequence[Copy]:
        """Return the idle copies among which a load would evict. Empty if the model fits."""
        fleet = self._fleet
        hosts = tuple(fleet.catalog.parts_of(spec, backend))
        most = fleet.catalog.backends[backend].max_models
        there = [copy for copy in fleet.copies if not copy.running and copy.vram_mb]
        beside = [copy for copy in there if copy.backend == backend]
        if most is not None and len(beside) >= most:
            return beside
        if all(self._fits(spec, backend, host) for host in hosts):
            return ()
        return [copy for copy in there if set(fleet.copies.hosts_of(copy)) & set(hosts)]

    def _fits(self, spec: ModelSpec, backend: str, host: str) -> bool:
        fleet = self._fleet
        mine_mb = dict(fleet.memory.shares(spec, backend)).get(host, fleet.memory.vram_mb(spec))
        return mine_mb <= fleet.memory.usable_mb(host) - fleet.memory.mb_on(host)

    def _leaver(self, copy: Copy, now: float) -> Leaver:
        return Leaver(  # models with deferred jobs give way to other deferred jobs at once
            idle_s=inf if copy.model in self._queues else now - copy.idle_since,
            rate_per_s=self._times.rates.per_s(copy.model, now),
            load_s=self._times.load_s(copy.model, copy.backend),
        )

    def _has_unused_copy(self, model: str) -> bool:
        """Return whether a copy of a model was loaded but has run nothing, because other jobs arrived.

        One deferred job may run then. Otherwise every pause could cause a load and none of them a
        job.
        """
        return any(
            self._fleet.copies.is_unused(copy) and not copy.pinned
            for copy in self._fleet.copies.of(model)
        )
