"""What the history costs: its share of a busy bot's processor time, and its size.

`python -m benchmarks.history [--json] [--costs] [--jobs N] [--rounds N]`. The busy bot is a queue in virtual
time, on four cards whose servers take 0.2 s a job, 20 jobs a second in all, over a database in
memory; everything runs in one thread. Keys of the JSON:

- `share`: the processor time inside the history, of all that was used; the median of the rounds. It is a
  share of a bare queue: messages, pictures and servers are not in it.
- `ms_per_job`, `ms_per_job_without`: the processor time of a whole job with a history and without
  one, medians of rounds that take turns.
- `hours_mb`: the hour buckets of 90 days of ten busy models and four hosts.
- `days_mb`: beside them, 26 hours of minutes and 25 of segments, every minute busy.
- `hours_mb_per_year`: the first for a year.
"""

import argparse
import asyncio
import json
import logging
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a plain script, too

from bot.chat.records.stored_records import MIGRATIONS
from bot.history.batch import HistoryBatch
from bot.history.buckets import BucketKey, CountsByName, HostBucket, ModelBucket, beginning
from bot.history.histogram import Histogram
from bot.history.hours import Segment
from bot.history.recorder import HistoryRecorder
from bot.history.stored_history import MINUTES_KEPT_S, SEGMENTS_KEPT_S, StoredHistory
from queueing.service.host_watch import HostWatch
from queueing.service.jobqueue import JobQueue
from queueing.store import Database, JobStore, open_database
from tests.fakes.clock import START
from tests.simulation.installation import NO_LIMITS, Installation, host, image_model
from tests.simulation.loop import run

T = TypeVar("T")
MODELS, HOSTS = 10, 4
SERVICE_S = 0.2
_LOOKS = 10_000
DAYS = 90
DAY_S = 86400.0


# ---------------------------------------------------------------- processor time


class Stopwatch:
    """Adds up the processor time inside calls."""

    def __init__(self) -> None:
        self.seconds = 0.0
        began = time.process_time()
        for _ in range(_LOOKS):
            time.process_time()
        self._own_s = (time.process_time() - began) / _LOOKS  # of looking at the clock

    def timed(self, call: Callable[..., T]) -> Callable[..., T]:
        """Return the call, its processor time added up."""

        def called(*args: Any) -> T:
            began = time.process_time()
            try:
                return call(*args)
            finally:
                self.seconds += time.process_time() - began - self._own_s

        return called


async def busy(jobs: int, *, recorded: bool) -> tuple[float, float]:
    """Run jobs and return the processor time used, and how much of it inside the history."""
    watch = Stopwatch()
    there = Installation.of(
        [image_model(f"model-{n}", f"server-{n % HOSTS}", vram_mb=1000) for n in range(MODELS)],
        [host(f"host-{n}", f"server-{n}", serial=True) for n in range(HOSTS)],
    )
    for server in there.servers.values():
        server.service_s = SERVICE_S
    database = await open_database("sqlite://", migrations=(MIGRATIONS,), inline=True)
    followed = watch.timed(HostWatch.look)  # what it tells the history is inside it
    looking = patch.object(HostWatch, "look", followed) if recorded else nullcontext()
    began = time.process_time()
    with looking:
        await _run_all(there, database, jobs, watch if recorded else None)
    return time.process_time() - began, watch.seconds


async def _run_all(
    there: Installation, database: Database, jobs: int, watch: Stopwatch | None
) -> None:
    async with there.queue(JobStore(database)) as queue, AsyncExitStack() as stack:
        if watch is not None:
            await stack.enter_async_context(_recorded(there, database, queue, watch))
        new = [there.new(f"model-{n % MODELS}", f"{n}") for n in range(jobs)]
        asked = [await queue.submitter.submit(each, limits=NO_LIMITS) for each in new]
        while await queue.jobs.open_jobs():
            await queue.status.standings(asked[:1])
            await asyncio.sleep(30.0)


@asynccontextmanager
async def _recorded(
    there: Installation, database: Database, queue: JobQueue, watch: Stopwatch
) -> AsyncIterator[None]:
    recorder = HistoryRecorder(
        StoredHistory(database), queue.promises, there.clock, keep_s=lambda: 1e9
    )
    queue.events.subscribe(watch.timed(recorder.on_event))
    queue.hosts.subscribe(recorder.on_hosts)
    writing = asyncio.create_task(_writing(recorder, watch))
    try:
        yield
    finally:
        writing.cancel()
        await asyncio.wait([writing])


async def _writing(recorder: HistoryRecorder, watch: Stopwatch) -> None:
    """Write as `run` does; the database works in this thread, so all of it is counted."""
    while True:
        began = time.process_time()
        await recorder.write()
        watch.seconds += time.process_time() - began
        await asyncio.sleep(15.0)


def costs(jobs: int, rounds: int) -> dict[str, float]:
    """Return the share and what a job costs, with and without."""
    used: dict[bool, list[float]] = {True: [], False: []}
    shares: list[float] = []
    for _ in range(rounds):
        for recorded in (True, False):
            seconds, inside = run(busy(jobs, recorded=recorded))
            used[recorded].append(seconds * 1000 / jobs)
            if recorded:
                shares.append(inside / seconds)
    return {
        "share": round(statistics.median(shares), 4),
        "ms_per_job": round(statistics.median(used[True]), 3),
        "ms_per_job_without": round(statistics.median(used[False]), 3),
    }


# ---------------------------------------------------------------- size


def _model(rng: random.Random) -> ModelBucket:
    """Return an hour or a minute with much of everything."""
    times = Histogram({rng.randrange(20, 80): rng.randrange(1, 50) for _ in range(12)})
    return ModelBucket(
        done=rng.randrange(200),
        failed=rng.randrange(5),
        service_s=rng.random() * 3600,
        waits=times,
        services=times,
        loads=rng.randrange(9),
        evictions=rng.randrange(9),
        given=90,
        kept=80,
        errors=CountsByName({"away": 2, "memory": 1}),
    )


def _minute(at: int, rng: random.Random) -> HistoryBatch:
    batch = HistoryBatch()
    for n in range(MODELS):
        batch.models[BucketKey(at, f"a-model-of-usual-name-{n}")] = _model(rng)
    for n in range(HOSTS):
        spent = HostBucket(run_s=rng.random() * 60, idle_s=rng.random() * 60, loads=1)
        batch.hosts[BucketKey(at, f"host-{n}")] = spent
    return batch


async def size_mb(folder: str, fill: Callable[[StoredHistory], Any]) -> float:
    """Return what a database grows by when it is filled."""
    file = Path(folder) / f"{fill.__name__}.sqlite"
    database: Database = await open_database(f"sqlite:///{file}", migrations=(MIGRATIONS,))
    await fill(StoredHistory(database))
    await database.aclose()
    return file.stat().st_size / 1e6


async def hours(history: StoredHistory) -> None:
    """Write the hours of 90 days, without the minutes they came from."""
    rng = random.Random(1)
    now = int(START)
    for hour in range(DAYS * 24):
        await history.add(_minute(now + hour * 3600, rng))
        if hour % 100 == 99:
            await history.expire(now + hour * 3600 + 3 * DAY_S, 1e9)


async def days(history: StoredHistory) -> None:
    """Write 26 hours of minutes and 25 of segments, one every four seconds."""
    rng = random.Random(2)
    ends = beginning(START, 60)
    for minute in range(int(MINUTES_KEPT_S / 60)):
        batch = _minute(ends - minute * 60, rng)
        if minute * 60 < SEGMENTS_KEPT_S:
            for n in range(HOSTS):
                for at in range(0, 60, 4):
                    begins = float(ends - minute * 60 + at)
                    name = (f"a-model-of-usual-name-{n}",)
                    run_s = Segment(begins=begins, ends=begins + 4, kind="run", models=name)
                    batch.segments[f"host-{n}", begins] = run_s
        await history.add(batch)


def sizes() -> dict[str, float]:
    """Return how large the history becomes."""
    with tempfile.TemporaryDirectory() as folder:
        hours_mb = asyncio.run(size_mb(folder, hours))
        days_mb = asyncio.run(size_mb(folder, days))
    return {
        "hours_mb": round(hours_mb, 1),
        "days_mb": round(days_mb, 1),
        "hours_mb_per_year": round(hours_mb * 365 / DAYS, 1),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--jobs", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--costs", action="store_true", help="processor time alone")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.CRITICAL)
    figures = costs(options.jobs, options.rounds)
    if not options.costs:
        figures |= sizes()
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:<24}{value!s:>12}")


if __name__ == "__main__":
    main()
