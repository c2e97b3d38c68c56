"""One trace on its way through a queue, under one of several sets of rules."""

import asyncio
import gc
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from unittest.mock import patch

from benchmarks.schedule.server import Ledger, TraceInstallation, index_of, sleep_until
from benchmarks.schedule.trace import JobOutcome, Outcome, Trace, TraceJob
from queueing.core.events import Event, JobChanged
from queueing.core.jobs import Job, JobState, NewJob
from queueing.core.requests import TextToImage
from queueing.core.snapshot import Plan, Residency, Rules, Snapshot, Start
from queueing.core.status import Estimate, Standing
from queueing.engine import scheduler
from queueing.planning.eviction import candidates, is_idle, make_room
from queueing.planning.fleet_state import FleetState
from queueing.planning.planner import plan
from queueing.service.job_queue import JobQueue
from tests.simulation import loop as virtual
from tests.simulation.installation import NO_LIMITS

RULES = {
    "serial": Rules(gate=False, replicate=False),
    "plain": Rules(gate=False, replicate=False),
    "full": Rules(),
    "fair": Rules(order="fair"),
    "without-R4": Rules(gate=False),
    "without-R5": Rules(replicate=False),
    "without-double": Rules(double=False),
}
LOOKS = 50  # turns of the loop; a start is recorded within a few


def serial_plan(world: Snapshot) -> Plan:
    """Run the oldest job of all on its own, as simple bots do; evict whatever is in its way.

    Nothing else runs or loads at the same time, on any host. Replaces `queueing.planning.planner.plan`.
    """
    if any(copy.running or copy.residency is not Residency.READY for copy in world.copies):
        return Plan()
    waiting = (waiting for model in world.models.values() for waiting in model.waiting)
    heads = [each.heads[0] for each in waiting if each.heads]
    if not heads:
        return Plan()
    job, state = min(heads, key=lambda job: (job.queued_at, job.id)), FleetState(world)
    model = state.models[job.model]
    for copy in model.copies:
        return Plan(starts=(Start(job=job, backend=copy.view.backend),))
    for backend in candidates(state, model):
        room = make_room(model, backend, is_idle)
        if room is not None:
            state.load(model, backend, room.victims)
            return Plan(loads=tuple(state.loads))
    return Plan()


class Replay:
    """One trace on its way through a queue."""

    def __init__(self, trace: Trace, rules: str, *, promises: bool) -> None:
        self._plan = serial_plan if rules == "serial" else plan
        self._trace = trace
        self._promises = promises
        self._rules = RULES[rules]
        self._ledger = Ledger(trace)
        self._estimates: dict[int, Estimate | None] = {}
        self._states: dict[int, JobState] = {}
        self._promising_s = 0.0
        self._decisions, self._deciding_s = 0, 0.0
        self._ids: dict[int, int] = {}
        self._all_ended = asyncio.Event()

    def decide(self, world: Snapshot) -> Plan:
        """Decide for the scheduler, and count the decision with its processor time."""
        began = time.process_time()
        answer = self._plan(world)
        self._deciding_s += time.process_time() - began
        self._decisions += 1
        return answer

    async def run(self) -> Outcome:
        """Replay the trace to its end."""
        installation = TraceInstallation(self._ledger, self._rules)
        async with installation.queue() as queue, asyncio.TaskGroup() as people:
            queue.events.subscribe(self._notice)
            asking = people.create_task(self._people(queue))
            if self._trace.jobs:
                await self._all_ended.wait()
            asking.cancel()  # later cancels are of jobs that have ended
        return self._outcome()

    async def _people(self, queue: JobQueue) -> None:
        """Ask and cancel, moment by moment; requests go before cancels of the same moment."""
        await _first_look(queue)
        arrivals: defaultdict[float, list[int]] = defaultdict(list)
        cancels: defaultdict[float, list[int]] = defaultdict(list)
        for index, job in enumerate(self._trace.jobs):
            arrivals[job.at].append(index)
            if job.cancel_at is not None:
                cancels[max(job.cancel_at, job.at)].append(index)
        for moment in sorted(arrivals.keys() | cancels.keys()):
            if moment > asyncio.get_running_loop().time():
                await sleep_until(moment)
            await self._arrive(queue, arrivals.get(moment, ()))
            for index in cancels.get(moment, ()):
                await self._cancel(queue, index, moment)

    async def _arrive(self, queue: JobQueue, indexes: Sequence[int]) -> None:
        # All of one moment are accepted before any of them gets an estimate.
        new = [_new(index, self._trace.jobs[index]) for index in indexes]
        submitting = (queue.submitter.submit(each, limits=NO_LIMITS) for each in new)
        accepted = await asyncio.gather(*submitting)
        for job in accepted:
            self._ids[index_of(job.request)] = job.id
        if accepted and self._promises:
            await self._promise(queue, accepted)

    async def _promise(self, queue: JobQueue, jobs: Sequence[Job]) -> None:
        """Record when jobs are expected to finish, as estimated at their acceptance.

        There is no estimate while a start in their queue is being recorded, which takes no time.
        """
        asked = jobs
        for _ in range(LOOKS):
            began = time.process_time()
            standings = await queue.status.standings(asked)
            self._promising_s += time.process_time() - began
            for job in asked:
                self._estimates[index_of(job.request)] = _estimate(job, standings[job.id])
            asked = [
                await queue.jobs.get(job.id) or job
                for job in asked
                if self._estimates[index_of(job.request)] is None
            ]
            if not asked:
                break
            await asyncio.sleep(0)

    async def _cancel(self, queue: JobQueue, index: int, moment: float) -> None:
        """Cancel a job unless it ends by then; a job that starts in that moment goes on."""
        run = self._ledger.runs.get(index)
        if run is None or run.started_s == moment or run.ends_s > moment:
            await queue.submitter.cancel(self._ids[index])

    def _notice(self, event: Event) -> None:
        if isinstance(event, JobChanged) and event.job.state.final:
            self._states[index_of(event.job.request)] = event.job.state
            if len(self._states) == len(self._trace.jobs):
                self._all_ended.set()

    def _outcome(self) -> Outcome:
        jobs = len(self._trace.jobs)
        return Outcome(
            jobs=tuple(self._job(index) for index in range(jobs)),
            loads=tuple(self._ledger.loads),
            peak_vram_mb={name: gpu.peak_mb for name, gpu in self._ledger.gpus.items()},
            decisions=self._decisions,
            decision_us_mean=1e6 * self._deciding_s / max(1, self._decisions),
            forecast_ms_per_job=1e3 * self._promising_s / max(1, jobs),
        )

    def _job(self, index: int) -> JobOutcome:
        state, found = self._states[index], dict[str, Any]()
        run, estimate = self._ledger.runs.get(index), self._estimates.get(index)
        if run is not None and (state is not JobState.CANCELLED or run.finished_s != run.started_s):
            found |= asdict(run)  # it was not cancelled in the moment of its turn
        if estimate is not None:
            found |= {"estimate_s": estimate.at, "range_s": (estimate.earliest, estimate.latest)}
        model = self._trace.jobs[index].model
        return JobOutcome(index=index, model=model, state=state.value, **found)


def _estimate(job: Job, standing: Standing) -> Estimate | None:
    if standing.ends is not None or job.finished_at is None:
        return standing.ends
    return Estimate(at=job.finished_at, earliest=job.finished_at, latest=job.finished_at)


def _new(index: int, job: TraceJob) -> NewJob:
    over_at_once = job.cancel_at is not None and job.cancel_at <= job.at
    return NewJob(
        model=job.model,
        request=TextToImage(prompt=str(index)),
        owner=job.user,
        lane=job.lane,
        key=f"trace:{index}",
        delay_s=1.0 if over_at_once else 0.0,  # or a model might be loaded for it
    )


async def _first_look(queue: JobQueue) -> None:
    """Wait until every server has reported what it holds: there are no estimates before."""
    for _ in range(LOOKS):
        if all(server.up for server in queue.status.snapshot().backends):
            break
        await asyncio.sleep(0)


def replay(trace: Trace, rules: str, *, promises: bool = True) -> Outcome:
    """Replay a trace under the given rules in virtual time, with or without estimates."""
    run = Replay(trace, rules, promises=promises)
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 50)  # days of work pass in seconds and leave almost no cycles
    try:
        with patch.object(scheduler, "plan", run.decide):
            return virtual.run(run.run())
    finally:
        gc.set_threshold(*before)
