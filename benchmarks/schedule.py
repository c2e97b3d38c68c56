"""Replays a trace through the real router, loader, processor and SQLite store in virtual time.

`python -m benchmarks.schedule --trace FILE --out FILE [--rules serial|plain|full]` writes what
happened: the same trace gives the same file, `decision_us_mean` apart. `plain` switches rules R4
and R5 off, `serial` serves one job at a time. `--summary` prints the figures of one or more
traces under all three rules instead. Formats: `benchmarks/trace.py`.
"""

import argparse
import asyncio
import gc
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import groupby
from pathlib import Path
from statistics import geometric_mean
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a plain script, too

from benchmarks.serial import serial_plan
from benchmarks.servers import Ledger, TraceServer, index_of
from benchmarks.trace import JobOutcome, Outcome, Trace, TraceJob
from queueing import router
from queueing.events import Event, JobChanged
from queueing.jobqueue import JobQueue
from queueing.jobs import Job, JobState, NewJob
from queueing.planning import plan
from queueing.ports import Admission
from queueing.requests import TextToImage
from queueing.store import SqliteStore, open_database
from queueing.world import Plan, Rules, World
from tests.simulation import loop as virtual

RULES = {
    "serial": Rules(gate=False, replicate=False),
    "plain": Rules(gate=False, replicate=False),
    "full": Rules(),
}
NO_LIMITS = Admission()


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
        self._ids: dict[int, int] = {}
        self._all_ended: asyncio.Future[None] | None = None

    async def run(self) -> Outcome:
        """Replay the trace to its end."""
        self._all_ended = asyncio.get_running_loop().create_future()
        async with self._queue() as queue, asyncio.TaskGroup() as people:
            people.create_task(self._arrive(queue))
            people.create_task(self._cancel(queue))
            if self.trace.jobs:
                await self._all_ended
        return self._outcome()

    @asynccontextmanager
    async def _queue(self) -> AsyncIterator[JobQueue]:
        store = SqliteStore(await open_database("sqlite://", inline=True))
        queue = JobQueue(
            store=store,
            catalog=self.trace.catalog(),
            backends=self._servers(),
            clock=LoopClock(),
            rules=self.rules,
            runner="replay",
        )
        queue.subscribe(self._notice)
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
            backend.name: TraceServer(backend.name, self.ledger.cards[host.name], self.ledger)
            for host in self.trace.hosts
            for backend in host.backends
        }
        for resident in self.trace.resident:
            servers[resident.backend].hold(self.ledger.models[resident.model])
        return servers

    # ------------------------------------------------------------ what people do

    async def _arrive(self, queue: JobQueue) -> None:
        jobs = sorted(enumerate(self.trace.jobs), key=lambda item: (item[1].at, item[0]))
        for at, together in groupby(jobs, key=lambda item: item[1].at):
            await _sleep_until(at)
            # All of one moment are accepted before any of them is promised anything.
            accepted = await asyncio.gather(
                *(queue.submit(_new(index, job), limits=NO_LIMITS) for index, job in together)
            )
            for job in accepted:
                self._ids[index_of(job.request)] = job.id
            if self.promises:
                self.estimates.update(await _promises(queue, accepted))

    async def _cancel(self, queue: JobQueue) -> None:
        cancels = sorted(
            (max(job.cancel_at, job.at), index)
            for index, job in enumerate(self.trace.jobs)
            if job.cancel_at is not None
        )
        for at, index in cancels:
            await _sleep_until(at)
            job = await queue.get(self._ids[index]) if index in self._ids else None
            if job is not None and job.state is JobState.PENDING:
                await queue.cancel(job.id)

    def _notice(self, event: Event) -> None:
        if isinstance(event, JobChanged) and event.job.state.final:
            self.states[index_of(event.job.request)] = event.job.state
            if len(self.states) == len(self.trace.jobs) and self._all_ended is not None:
                self._all_ended.set_result(None)

    # ------------------------------------------------------------ what happened

    def _outcome(self) -> Outcome:
        loads = sorted(self.ledger.loads, key=lambda load: (load.started_s, load.backend))
        return Outcome(
            jobs=tuple(self._job(index) for index in range(len(self.trace.jobs))),
            loads=tuple(loads),
            peak_vram_mb={name: card.peak_mb for name, card in self.ledger.cards.items()},
            decisions=self.watch.decisions,
            decision_us_mean=1e6 * self.watch.spent_s / max(1, self.watch.decisions),
        )

    def _job(self, index: int) -> JobOutcome:
        run = self.ledger.runs.get(index)
        return JobOutcome(
            index=index,
            model=self.trace.jobs[index].model,
            backend=None if run is None else run.backend,
            ready_s=None if run is None else run.ready_s,
            started_s=None if run is None else run.started_s,
            finished_s=None if run is None else run.finished_s,
            estimate_s=self.estimates.get(index),
            state=self.states[index].value,
        )


def _new(index: int, job: TraceJob) -> NewJob:
    return NewJob(
        model=job.model,
        request=TextToImage(prompt=str(index)),
        owner=job.user,
        lane=job.lane,
        key=f"trace:{index}",
    )


async def _promises(queue: JobQueue, jobs: Sequence[Job]) -> dict[int, float | None]:
    """Return the moments jobs are promised at their acceptance, started already or not."""
    standings = await queue.standings(jobs)
    started = [job for job in jobs if standings[job.id].done_at is None]
    newer = [await queue.get(job.id) or job for job in started]
    standings = {**standings, **(await queue.standings(newer) if newer else {})}
    return {index_of(job.request): standings[job.id].done_at for job in jobs}


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
        _rare_collections(),
    ):  # the router asks; we measure
        return virtual.run(run.run())


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Look for garbage in cycles rarely: days of work pass in seconds, and leave next to none."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)


# ---------------------------------------------------------------- figures


def summary(trace: Trace, outcome: Outcome) -> dict[str, float]:
    """Return the figures by which schedulers are compared."""
    done = [job for job in outcome.jobs if job.finished_s is not None]
    jobs = trace.jobs
    waits = [job.started_s - jobs[job.index].at for job in done if job.started_s is not None]
    kept = [_kept(jobs[job.index], job) for job in done]
    return {
        "mean_wait_s": sum(waits) / max(1, len(waits)),
        "worst_wait_s": max(waits, default=0.0),
        "makespan_s": max((job.finished_s or 0.0 for job in done), default=0.0),
        "loads": float(len(outcome.loads)),
        "estimates_kept": sum(kept) / max(1, len(kept)),
        "decision_us": outcome.decision_us_mean,
    }


def _kept(asked: TraceJob, job: JobOutcome) -> bool:
    """Tell whether the promise was right within 20 % of the wait for the result, or 5 s."""
    if job.estimate_s is None or job.finished_s is None:
        return False
    return abs(job.estimate_s - job.finished_s) <= max(5.0, 0.2 * (job.finished_s - asked.at))


FIGURES = ["mean_wait_s", "worst_wait_s", "makespan_s", "loads", "estimates_kept", "decision_us"]


def _print_summaries(paths: Sequence[Path]) -> None:
    """Print the figures of every trace under all rules, then their geometric means."""
    print(
        f"{'trace':<20}{'rules':<8}{'mean':>8}{'worst':>8}{'span':>8}{'loads':>7}{'kept':>6}{'us':>6}"
    )
    totals: dict[str, list[dict[str, float]]] = {rules: [] for rules in RULES}
    for path in paths:
        trace = Trace.model_validate_json(path.read_text(encoding="utf-8"))
        for rules, rows in totals.items():
            rows.append(summary(trace, replay(trace, rules)))
            _print_row(path.stem, rules, rows[-1])
    for rules, rows in totals.items():
        means = {key: geometric_mean(max(row[key], 1e-3) for row in rows) for key in FIGURES}
        _print_row("geometric mean", rules, means)


def _print_row(name: str, rules: str, row: dict[str, float]) -> None:
    mean, worst, span, loads, kept, decision_us = (row[key] for key in FIGURES)
    print(
        f"{name:<20}{rules:<8}{mean:8.1f}{worst:8.0f}{span:8.0f}{loads:7.0f}{kept:6.2f}"
        f"{decision_us:6.0f}",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rules", choices=sorted(RULES), default="full")
    parser.add_argument("--summary", type=Path, nargs="+", metavar="TRACE")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    if options.summary:
        _print_summaries(options.summary)
        return
    if options.trace is None or options.out is None:
        parser.error("--trace and --out are needed")
    trace = Trace.model_validate_json(options.trace.read_text(encoding="utf-8"))
    outcome = replay(trace, options.rules)
    options.out.write_text(outcome.model_dump_json(indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
