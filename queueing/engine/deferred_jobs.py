"""Lets jobs through that run when nothing else waits, and those that must begin in time.

They have a lane of their own, which the planner does not see while others wait for the same hosts,
or would probably wait because of them.

A load for one begins when the model that must leave has been idle for as long as its own load
takes, and will probably not be asked for before all is over. It does not wait for that for ever: a
queue of later jobs that has waited for an hour takes any pause, and then waits as long for the next
one.
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

PATIENCE_S = 3600.0  # of a queue of later jobs, since its first one came or it last took a pause
LIKELY = 0.5  # requests expected while it is in the way: from here on it would be missed


class Leaver(NamedTuple):
    """An idle model that would have to leave: since when, how often it is asked for, its load."""

    idle_s: float
    rate_per_s: float
    load_s: float


def may_leave(leaver: Leaver, in_the_way_s: float) -> bool:
    """Return whether no one will probably miss a model that leaves for a later job.

    Loading and serving the job takes `in_the_way_s`.
    """
    missed = leaver.rate_per_s * (in_the_way_s + leaver.load_s)
    return leaver.idle_s >= leaver.load_s and missed < LIKELY


def takes_any_pause(first_queued_at: float, took_at: float, now: float) -> bool:
    """Return whether a queue of later jobs has waited for long enough, `took_at` its last such pause."""
    return now - max(first_queued_at, took_at) >= PATIENCE_S


_WAKES = (WaitCause.ASLEEP, WaitCause.WAKING)


class DeferredJobs:
    """Knows which later jobs may be shown; `urged` are those that must begin now."""

    def __init__(self, fleet: Fleet, times: LearnedTimes, clock: Clock) -> None:
        self._fleet = fleet
        self._times = times
        self._clock = clock
        self.urged: set[int] = set()
        self._queues: set[str] = set()  # models of which later jobs wait
        self._open: set[str] = set()  # those of which all were shown last
        self._impatient: set[str] = set()  # those shown because they had waited for so long
        self._took_at: dict[str, float] = {}  # by model: when such a load last began in this run

    def shown(
        self, later: Sequence[QueueHead], waiting: Mapping[str, Sequence[Waiting]]
    ) -> Sequence[QueueHead]:
        """Return the queues of later jobs that the planner may see, perhaps with fewer jobs."""
        self._note_pauses()
        self._queues = {queue.model for queue in later}
        taken = set[str]()
        for model, queues in waiting.items():
            if any(queue.heads for queue in queues) and not self._fleet.rests.paused.stops_model(
                model
            ):
                taken |= self._could_begin_on(self._fleet.catalog.models[model])
        self._open = {each.model for each in later if self._is_open(each, taken)}
        seen = [self._seen(queue, alone=queue.model not in waiting) for queue in later]
        return [each for each in seen if each.heads or each.model in self._open]

    def _note_pauses(self) -> None:
        """Note the loads that have begun since queues were last shown that had waited for so long."""
        for model in self._impatient:
            if self._fleet.copies.of(model):
                self._took_at[model] = self._clock.now()
        self._impatient.clear()

    def _is_open(self, queue: QueueHead, taken: set[str]) -> bool:
        spec = self._fleet.catalog.models[queue.model]
        if not taken.isdisjoint(self._hosts(spec)):
            return False
        if self._fleet.copies.of(spec.name) or self._disturbs_no_one(spec):
            return True
        took_at = self._took_at.get(spec.name, 0.0)
        if takes_any_pause(queue.first_queued_at, took_at, self._clock.now()):
            self._impatient.add(spec.name)
        return spec.name in self._impatient

    def _seen(self, queue: QueueHead, *, alone: bool) -> QueueHead:
        if queue.model in self._open:
            return queue
        heads = tuple(job for job in queue.heads if job.id in self.urged)
        if not heads and alone and self._has_unused_copy(queue.model):
            heads = queue.heads[:1]
        return replace(queue, waiting=len(heads), heads=heads)

    def is_shown(self, job: Job) -> bool:
        """Return whether the planner sees a later job, so that it may begin."""
        return job.model in self._open or job.id in self.urged

    # ------------------------------------------------------------ who else wants the hosts

    def _hosts(self, spec: ModelSpec) -> frozenset[str]:
        catalog = self._fleet.catalog
        return frozenset(
            host for name in self._fleet.serving(spec) for host in catalog.parts_of(spec, name)
        )

    def _could_begin_on(self, spec: ModelSpec) -> frozenset[str]:
        """Return the hosts on which waiting jobs of a model may begin before something changes.

        Those whose server is away, or that rest, are no reason to leave other hosts idle.
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

    def _disturbs_no_one(self, spec: ModelSpec) -> bool:
        """Whether later jobs of a model need a load for which no one will probably wait."""
        now, durations = self._clock.now(), self._times.durations
        in_the_way_s = (
            durations.load(spec, "").median_s + durations.typical_service(spec, "").median_s
        )
        return any(
            all(
                may_leave(self._leaver(copy, now), in_the_way_s)
                for copy in self._would_leave(spec, backend)
            )
            for backend in self._fleet.serving(spec)
        )

    def _would_leave(self, spec: ModelSpec, backend: str) -> Sequence[Copy]:
        """Return the idle copies of which some must leave for a load there; none if it fits."""
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
        return Leaver(  # what serves later jobs itself gives way to others of them
            idle_s=inf if copy.model in self._queues else now - copy.idle_since,
            rate_per_s=self._times.rates.per_s(copy.model, now),
            load_s=self._times.load_s(copy.model, copy.backend),
        )

    def _has_unused_copy(self, model: str) -> bool:
        """Whether a model was loaded and has run nothing: others have come while it was.

        One later job runs then, or a load would follow every pause, and no job ever.
        """
        return any(
            self._fleet.copies.is_unused(copy) and not copy.pinned
            for copy in self._fleet.copies.of(model)
        )
