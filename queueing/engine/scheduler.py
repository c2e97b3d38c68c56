"""Scheduler: takes a snapshot, calls `plan()` and carries out the plan, in a single loop.

The loop is level-triggered: every wake-up means "check everything", so a lost signal costs at most
one tick. All decisions are made by the planner.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from queueing.core.concurrency import TaskGroup, came, timeout
from queueing.core.errors import StoreError
from queueing.core.events import Event, JobChanged
from queueing.core.jobs import Job, JobEvent, JobState
from queueing.core.ports import Clock
from queueing.core.snapshot import Evict, EvictionCause, Plan, Snapshot, WaitCause, Waiting
from queueing.core.status import LaneStatus
from queueing.engine.change_tracker import ChangeTracker
from queueing.engine.fair.fair_queues import FairQueues
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.fleet.learned_times import Checkpoint, LearnedTimes
from queueing.engine.fleet.running_jobs import Slot
from queueing.engine.host_power import HostPower
from queueing.engine.job_runner import JobRunner
from queueing.engine.loader import Loader
from queueing.engine.snapshot_builder import SnapshotBuilder
from queueing.planning.ahead import in_the_way
from queueing.planning.planner import plan
from queueing.planning.retry import pause_s

PATIENCE_S = 0.5  # the longest a caller waits for the scheduler's decision about its job


class Decided:
    """Lets callers wait until the scheduler has decided about new jobs."""

    def __init__(self, slots: Callable[[], Mapping[int, Slot]]) -> None:
        """Create it; `slots` returns the occupied slots by job id."""
        self._slots = slots
        self._newest = 0  # the newest accepted job
        self._seen = 0  # the newest job that was accepted before a completed step
        self._stepped = asyncio.Event()

    def accepted(self, job_id: int) -> None:
        """Record a new job, which no step has considered yet."""
        self._newest = max(self._newest, job_id)

    def step(self) -> Callable[[], None]:
        """Begin a scheduler step. Returns the function to call when it ends."""
        newest = self._newest

        def ended() -> None:
            self._seen = newest
            self._stepped.set()

        return ended

    async def about(self, jobs: Collection[Job]) -> None:
        """Wait until each job is running or has a reason to wait, at most `PATIENCE_S`."""
        if not self._any_undecided(jobs):
            return
        with suppress(TimeoutError):
            async with timeout(PATIENCE_S):
                while self._any_undecided(jobs):
                    self._stepped.clear()
                    await self._stepped.wait()

    def _any_undecided(self, jobs: Collection[Job]) -> bool:
        waiting = [job for job in jobs if job.state is JobState.PENDING and not job.held]
        slots = self._slots() if waiting else {}
        return any(
            self._seen < job.id <= self._newest
            if (slot := slots.get(job.id)) is None
            else slot.job.state is JobState.PENDING  # its start is being stored
            for job in waiting
        )


log = logging.getLogger(__name__)

TICK_S = 5.0
_LEAVES = {
    EvictionCause.ROOM: "its memory is needed",
    EvictionCause.MEMORY: "other programs have taken memory",
    EvictionCause.IDLE: "it has been idle",
    EvictionCause.QUIET: "quiet hours begin",
    EvictionCause.OTHERS: "another program uses the GPU",
}


@dataclass(kw_only=True, eq=False, repr=False)
class Scheduler:
    """Runs steps until cancelled. Keeps the last plan, which explains why jobs wait."""

    fleet: Fleet
    loader: Loader
    processor: JobRunner
    times: LearnedTimes
    checkpoint: Checkpoint
    snapshots: SnapshotBuilder
    sleepers: HostPower
    clock: Clock
    fair: FairQueues
    changes: ChangeTracker
    _awake: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    plan: Plan = field(default_factory=Plan, init=False)
    latest: Snapshot | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.decided = Decided(lambda: self.fleet.jobs.slots)
        self.on_step: Callable[[Snapshot], None] = lambda _snapshot: None  # called after each step

    def wake(self) -> None:
        """Request a step soon. Cheap and idempotent."""
        self._awake.set()

    def on_event(self, event: Event) -> None:
        """Request a step if a committed change may let another job start, or moves waiting jobs.

        Starts and completions request none: their slot was taken or freed earlier.
        """
        if not isinstance(event, JobChanged):
            return
        if event.event is None:
            self.decided.accepted(event.job.id)
        self.changes.on_change(event, self.latest)
        ended = event.event is JobEvent.COMPLETE and not self.fair.is_on
        if event.entered is not None or not (ended or event.event is JobEvent.START):
            self.wake()

    def reconsider(self) -> None:
        """Plan again without the current reservations, after models or servers have changed."""
        self.plan = replace(self.plan, reservations=())
        self.changes.reconsidered()
        self.wake()

    def moved(self, model: str) -> None:
        """Announce, with the next step, that positions in this model's queue have changed."""
        self.changes.moved([model])
        self.wake()

    def waiting(self, model: str) -> int:
        """Return how many jobs of a model were in its queue at the last step."""
        view = self.latest.models.get(model) if self.latest else None
        return sum(lane.count for lane in view.waiting) if view else 0

    def oldest_at(self, model: str) -> float | None:
        """Return when the oldest job in a model's queue was accepted, as of the last step.

        None if the queue is empty.
        """
        view = self.latest.models.get(model) if self.latest else None
        return min((lane.oldest_at for lane in view.waiting), default=None) if view else None

    def lanes(self, model: str) -> tuple[LaneStatus, ...]:
        """Return the lanes of a model in which jobs waited at the last step."""
        view = self.latest.models.get(model) if self.latest else None
        return tuple(
            LaneStatus(lane=lane.lane, waiting=lane.count)
            for lane in (view.waiting if view else ())
        )

    async def run(self, work: TaskGroup) -> None:
        """Run steps until cancelled; jobs and loads become tasks of `work`."""
        failures = 0
        while True:
            self._awake.clear()
            try:
                await self._step(work)
            except StoreError as error:
                failures += 1
                log.warning("the database is unavailable: %s", error)
                await asyncio.sleep(pause_s(failures))
            except Exception:
                failures += 1
                log.exception("a step of the scheduler failed")
                await asyncio.sleep(pause_s(failures))
            else:
                failures = 0
                await self._wait_for_work()

    async def _wait_for_work(self) -> None:
        look_at = self.plan.look_at
        rest_s = TICK_S if look_at is None else min(TICK_S, look_at - self.clock.now())
        if rest_s > 0:
            await came(self._awake, rest_s)

    async def snapshot(self) -> Snapshot:
        """Take a snapshot. Raises `StoreError`."""
        return await self.snapshots.take(self.plan)

    async def _step(self, work: TaskGroup) -> None:
        ended = self.processor.take_ended()
        try:
            await self._decide(work)
        finally:
            for each in ended:
                if not each.done():
                    each.set_result(None)

    async def _decide(self, work: TaskGroup) -> None:
        self.sleepers.observe()
        ended = self.decided.step()
        snapshot = await self.snapshot()
        if self.sleepers.act(snapshot, work):
            snapshot = await self.snapshot()
        self.latest, self.plan = snapshot, self.snapshots.real(plan(snapshot))
        woken = self._awake.is_set()
        self._carry_out_moves(snapshot, work)
        pending = self._begin_starts(work)
        if not woken:  # the plan already accounts for its own actions
            self._awake.clear()
        await _stored(pending)
        self._note_starts(snapshot)
        ended()
        await self.checkpoint.write()
        self.on_step(snapshot)
        self.changes.step(snapshot, self.latest, self.plan)

    def _carry_out_moves(self, snapshot: Snapshot, work: TaskGroup) -> None:
        drained = [
            Evict(model=c.model, backend=c.backend, why=EvictionCause.DRAINED)
            for c in self.fleet.copies.take_drained()
        ]
        for evict in self.plan.evictions:
            log.info("unloading %s on %s: %s", evict.model, evict.backend, _LEAVES[evict.why])
        if leaving := (*self.plan.evictions, *drained):
            self.loader.begin_leaving(leaving, work)
        for copy in in_the_way(snapshot, self.plan.loads, self.plan.reasons):
            log.info("no longer loading %s ahead on %s", copy.model, copy.backend)
            self.loader.give_way(copy, work)
        for load in self.plan.loads:
            victims = ", ".join(victim.model for victim in load.evict) or "nothing"
            ahead = " ahead" if load.ahead else ""
            log.info("loading %s%s on %s, evicting %s", load.model, ahead, load.backend, victims)
            self.loader.begin(load, self.times.load_s(load.model, load.backend), work)

    def _begin_starts(self, work: TaskGroup) -> list[asyncio.Future[None]]:
        """Begin all starts together, so that the store can commit them in one transaction."""
        now = self.clock.now()
        return [
            self.processor.begin(
                start, now + self.times.service(start.job, start.backend).median_s, work
            )
            for start in self.plan.starts
        ]

    def _note_starts(self, snapshot: Snapshot) -> None:
        """Remove the jobs that have started from the published snapshot until the next step.

        If every job that a queue showed has started, the next step follows at once: more may start.
        """
        begun = Counter((start.job.model, start.job.lane) for start in self.plan.starts)
        models = dict(snapshot.models)
        for name in {model for model, _ in begun}:
            waiting = [_without(w, begun[name, w.lane]) for w in models[name].waiting]
            models[name] = replace(
                models[name], waiting=tuple(queue for queue in waiting if queue.count)
            )
            if any(queue.count and not queue.heads for queue in waiting):
                self._awake.set()
        self.latest = replace(snapshot, models=models)
        self.plan = replace(
            self.plan,
            reasons={
                model: reason
                for model, reason in self.plan.reasons.items()
                if reason.why is not WaitCause.STARTING
            },
        )


async def _stored(starts: Sequence[asyncio.Future[None]]) -> None:
    """Wait until all starts are stored. Raises `StoreError` if one fails."""
    try:
        for start in starts:  # most are stored together, so one pass of the event loop covers all
            await start
    finally:
        for start in starts:
            start.cancel()  # after an error, nobody waits for the remaining ones


def _without(queue: Waiting, begun: int) -> Waiting:
    """Return a queue without its first `begun` jobs."""
    if not begun:
        return queue
    heads = queue.heads[begun:]
    oldest_at = heads[0].queued_at if heads else queue.oldest_at
    return replace(queue, count=queue.count - begun, heads=heads, oldest_at=oldest_at)
