"""Replays a trace through the real router, loader, processor and SQLite store in virtual time.

`python -m benchmarks.schedule --trace FILE --out FILE [--rules NAME]` writes what happened: the same
trace gives the same file, but for `decision_us_mean` and `forecast_ms_per_job`. `without-R4`,
`without-R5` and `without-double` (second copies on one host) switch one rule off, `plain` R4 and R5,
`serial` serves one job at a time. `--summary` prints the figures of one or more traces instead,
under `serial`, `plain` and `full` or the rules that are named, with the processor time of each whole
replay. Formats: `benchmarks/trace.py`.
"""

import argparse
import asyncio
import gc
import logging
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a plain script, too

from benchmarks.serial import serial_plan
from benchmarks.servers import Ledger, TraceServer, index_of
from benchmarks.summary import print_summaries
from benchmarks.trace import JobOutcome, Outcome, Trace, TraceJob
from benchmarks.trace_file import read, told
from queueing.core.catalog import Catalog
from queueing.core.events import Event, JobChanged
from queueing.core.jobs import Job, JobState, NewJob
from queueing.core.ports import CardWatch, Machines, MemoryProbe
from queueing.core.requests import TextToImage
from queueing.core.standings import Standing
from queueing.core.storage import Admission
from queueing.core.world import Blocked, Plan, Rules, World
from queueing.engine import scheduler as router
from queueing.planning import plan
from queueing.service.jobqueue import JobQueue
from queueing.store import JobStore, open_database
from tests.simulation import loop as virtual

RULES = {
    "serial": Rules(gate=False, replicate=False),
    "plain": Rules(gate=False, replicate=False),
    "full": Rules(),
    "fair": Rules(order="fair"),
    "without-R4": Rules(gate=False),
    "without-R5": Rules(replicate=False),
    "without-double": Rules(double=False),
}
COMPARED = ("serial", "plain", "full")
NO_LIMITS = Admission()
LOOKS = 50  # turns of the loop; a start is written down within a few


class LoopClock:
    """Tells the virtual loop's own time, so that all sums of moments and durations are exact."""

    def now(self) -> float:
        """Return seconds since the trace's start."""
        return asyncio.get_running_loop().time()


class Stopwatch:
    """Measures a planner while it decides for the router."""

    def __init__(self, decide: Callable[[World], Plan]) -> None:
        self._decide = decide
        self.decisions = 0
        self.spent_s = 0.0

    def __call__(self, world: World) -> Plan:
        """Decide, and count the decision with its time."""
        began = time.process_time()  # others on the machine do not count
        answer = self._decide(world)
        self.spent_s += time.process_time() - began
        self.decisions += 1
        return answer


class Replay:
    """One trace on its way through a queue."""

    def __init__(self, trace: Trace, rules: str, *, promises: bool = True) -> None:
        self.trace = trace
        self.promises = promises
        self.rules = RULES[rules]
        self.watch = Stopwatch(serial_plan if rules == "serial" else plan)
        self.ledger = Ledger(trace)
        self.estimates: dict[int, float | None] = {}
        self.states: dict[int, JobState] = {}
        self.promising_s = 0.0
        self.cards: CardWatch | None = None
        self.memory: MemoryProbe | None = None
        self.machines: Machines | None = None
        self.servers = self._servers()
        self._ids: dict[int, int] = {}
        self._all_ended: asyncio.Future[None] | None = None

    async def run(self) -> Outcome:
        """Replay the trace to its end."""
        self._all_ended = asyncio.get_running_loop().create_future()
        async with self._queue() as queue, asyncio.TaskGroup() as people:
            asking = people.create_task(self._people(queue))
            if self.trace.jobs:
                await self._all_ended
            asking.cancel()  # who would have cancelled later has an end already
        return self._outcome()

    def catalog(self) -> Catalog:
        """Return the installation that the trace describes."""
        return self.trace.catalog()

    @asynccontextmanager
    async def _queue(self) -> AsyncIterator[JobQueue]:
        store = JobStore(await open_database("sqlite://", inline=True))
        queue = JobQueue(
            store=store,
            catalog=self.catalog(),
            backends=self.servers,
            clock=LoopClock(),
            rules=self.rules,
            cards=self.cards,
            memory=self.memory,
            machines=self.machines,
            runner="replay",
        )
        queue.events.subscribe(self._notice)
        running = asyncio.create_task(queue.run())
        try:
            yield queue
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            await store.aclose()

    def _servers(self) -> dict[str, TraceServer]:
        servers = {
            backend.name: TraceServer(backend.name, self.ledger)
            for host in self.trace.hosts
            for backend in host.backends
        }
        for resident in self.trace.resident:
            servers[resident.backend].hold(self.ledger.models[resident.model])
        return servers

    # ------------------------------------------------------------ what people do

    async def _people(self, queue: JobQueue) -> None:
        """Ask and cancel, moment by moment; of one moment first what is asked for."""
        await _first_look(queue)
        arrivals: defaultdict[float, list[int]] = defaultdict(list)
        cancels: defaultdict[float, list[int]] = defaultdict(list)
        for index, job in enumerate(self.trace.jobs):
            arrivals[job.at].append(index)
            if job.cancel_at is not None:
                cancels[max(job.cancel_at, job.at)].append(index)
        for moment in sorted(arrivals.keys() | cancels.keys()):
            await _sleep_until(moment)
            await self._arrive(queue, arrivals.get(moment, ()))
            for index in cancels.get(moment, ()):
                await self._cancel(queue, index, moment)

    async def _arrive(self, queue: JobQueue, indexes: Sequence[int]) -> None:
        # All of one moment are accepted before any of them is promised anything.
        accepted = await asyncio.gather(
            *(
                queue.submitter.submit(_new(index, self.trace.jobs[index]), limits=NO_LIMITS)
                for index in indexes
            )
        )
        for job in accepted:
            self._ids[index_of(job.request)] = job.id
        if accepted and self.promises:
            self.estimates.update(await self._promises(queue, accepted))

    async def _promises(self, queue: JobQueue, jobs: Sequence[Job]) -> dict[int, float | None]:
        """Return the moments jobs are promised at their acceptance, started already or not.

        Nothing is promised while a start of their line is being written down: that is over in no time.
        Nor is it while another program has all their cards, and asking again would not help.
        """
        told: dict[int, float | None] = {}
        asked = jobs
        for _ in range(LOOKS):
            began = time.process_time()
            standings = await queue.status.standings(asked)
            self.promising_s += time.process_time() - began
            for job in asked:
                done_at = standings[job.id].done_at
                told[index_of(job.request)] = job.finished_at if done_at is None else done_at
            untold = [
                job
                for job in asked
                if told[index_of(job.request)] is None and not _is_open(standings[job.id])
            ]
            if not untold:
                break
            await asyncio.sleep(0)
            asked = [await queue.jobs.get(job.id) or job for job in untold]
        return told

    async def _cancel(self, queue: JobQueue, index: int, moment: float) -> None:
        """Cancel a job unless it ends by itself by then; what starts in that moment is too late."""
        run = self.ledger.runs.get(index)
        if run is None or run.started_s == moment or run.ends_s > moment:
            await queue.submitter.cancel(self._ids[index])

    def _notice(self, event: Event) -> None:
        if isinstance(event, JobChanged) and event.job.state.final:
            self.states[index_of(event.job.request)] = event.job.state
            if len(self.states) == len(self.trace.jobs) and self._all_ended is not None:
                self._all_ended.set_result(None)

    # ------------------------------------------------------------ what happened

    def _outcome(self) -> Outcome:
        return Outcome(
            jobs=tuple(self._job(index) for index in range(len(self.trace.jobs))),
            loads=tuple(self.ledger.loads),
            peak_vram_mb={name: card.peak_mb for name, card in self.ledger.cards.items()},
            decisions=self.watch.decisions,
            decision_us_mean=1e6 * self.watch.spent_s / max(1, self.watch.decisions),
            forecast_ms_per_job=1e3 * self.promising_s / max(1, len(self.trace.jobs)),
        )

    def _job(self, index: int) -> JobOutcome:
        state = self.states[index]
        run = self.ledger.runs.get(index)
        if run is not None and state is JobState.CANCELLED and run.finished_s == run.started_s:
            run = None  # cancelled in the moment of its turn
        return JobOutcome(
            index=index,
            model=self.trace.jobs[index].model,
            backend=None if run is None else run.backend,
            ready_s=None if run is None else run.ready_s,
            started_s=None if run is None else run.started_s,
            finished_s=None if run is None else run.finished_s,
            estimate_s=self.estimates.get(index),
            state=state.value,
        )


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


def _is_open(standing: Standing) -> bool:
    return standing.reason is not None and standing.reason.why is Blocked.YIELDING


async def _first_look(queue: JobQueue) -> None:
    """Wait until every server has said what it holds: nothing could be promised before."""
    for _ in range(LOOKS):
        if all(server.up for server in queue.status.snapshot().backends):
            break
        await asyncio.sleep(0)


async def _sleep_until(moment: float) -> None:
    loop = asyncio.get_running_loop()
    if moment > loop.time():
        reached = loop.create_future()
        loop.call_at(moment, reached.set_result, None)
        await reached


def replay(trace: Trace, rules: str, *, promises: bool = True) -> Outcome:
    """Replay a trace under the given rules in virtual time, with or without estimates."""
    run = Replay(trace, rules, promises=promises)
    with (
        patch.object(router, "plan", run.watch),
        rare_collections(),
    ):  # the router asks; we measure
        return virtual.run(run.run())


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look for garbage in cycles rarely: days of work pass in seconds, and leave next to none."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rules", choices=sorted(RULES))
    parser.add_argument("--summary", type=Path, nargs="+", metavar="TRACE")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    if options.summary:
        compared = COMPARED if options.rules is None else (options.rules,)
        print_summaries(options.summary, compared, replay)
        return 0
    if options.trace is None or options.out is None:
        parser.error("--trace and --out are needed")
    trace = read(options.trace)
    if not options.out.parent.is_dir():
        parser.error(f"the folder {options.out.parent} does not exist")
    outcome = replay(trace, options.rules or "full")
    options.out.write_text(outcome.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(told(main))
