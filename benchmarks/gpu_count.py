"""What counting GPU seconds costs where no one limits them: a store beside one that does not count.

`python -m benchmarks.gpu_count [--rounds 9] [--jobs 4000] [--callers 20]` accepts, starts and ends
jobs in a SQLite file, in rounds of three that begin with another one each time: by the store as it is,
by one without the column of a job's expected seconds and without the sums that are written with the
ends, and by the store as it is once more. Printed are the medians of the processor time of a job in
microseconds, writer included, and the medians of the ratios in a round: `over` of the store as it is to
the one without, `luck` of the store as it is to itself.
"""

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a plain script, too

from benchmarks.store_jobs import LIMITS, NOW, database_in, new_job
from queueing.core.jobs import Job, JobEvent
from queueing.core.requests import Output
from queueing.store import JobStore
from queueing.store.jobs import changes, queries, rows
from queueing.store.jobs.gpu_use import GpuUse

TAKEN_S = 7.5  # of a card, by each job
ENDED_AFTER_S = 0.5  # from one end to the next: some quarters of an hour in all


class Spent(NamedTuple):
    """Processor time of a job, in microseconds."""

    accept_us: float
    end_us: float


@contextmanager
def uncounted() -> Iterator[None]:
    """Let stores neither write the column nor count."""
    gpu = queries.INSERT_JOB.split("(", 1)[1].split(")", 1)[0].split(", ").index("gpu_s")

    def job_row(job: Job, key: str, request: str) -> rows.Row:
        full = rows.job_row(job, key, request)
        at = gpu - 1  # the state is no parameter
        return (*full[:at], *full[at + 1 :])

    one = queries.INSERT_JOB.replace(" gpu_s,", "").replace("?, ?, ?)", "?, ?)")
    row = one[one.index("VALUES ") + len("VALUES ") :]
    several = one + f", {row}" * (queries.ROWS_AT_ONCE - 1)
    with (
        patch.object(changes, "job_row", job_row),
        patch.object(queries, "INSERT_JOB", one),
        patch.object(queries, "INSERT_JOBS", several),
        patch.object(GpuUse, "count", lambda *_: None),
        patch.object(GpuUse, "arrive", lambda *_: None),
        patch.object(GpuUse, "hold", lambda *_: None),
        patch.object(GpuUse, "refusal", lambda *_: None),
    ):
        yield


@contextmanager
def counted() -> Iterator[None]:
    """Leave stores as they are."""
    yield


async def measured(folder: Path, jobs: int, callers: int) -> Spent:
    """Accept, start and end jobs; return what accepting and ending took of the processor."""
    async with database_in(folder) as database:
        store = JobStore(database)
        await store.positions([])
        accepted: list[Job] = []

        async def accept(number: int) -> None:
            accepted.append(await store.add(new_job(number), NOW, limits=LIMITS))

        async def start(number: int) -> None:
            job = accepted[number]
            began = await store.apply(job, JobEvent.START, NOW, runner="r", backend="b")
            accepted[number] = began.job

        async def end(number: int) -> None:
            at = NOW + number * ENDED_AFTER_S
            done = Output(text="done")
            job = accepted[number]
            await store.apply(job, JobEvent.COMPLETE, at, output=done, gpu_s=TAKEN_S)

        accept_us = await _spent_us(accept, jobs, callers)
        await _spent_us(start, jobs, callers)
        return Spent(accept_us, await _spent_us(end, jobs, callers))


async def _spent_us(step: Callable[[int], Awaitable[None]], jobs: int, callers: int) -> float:
    numbers = iter(range(jobs))

    async def caller() -> None:
        for number in numbers:
            await step(number)

    gc.collect()
    began = time.process_time()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return 1e6 * (time.process_time() - began) / jobs


WAYS = {"counts": counted, "without": uncounted, "same": counted}


def _print(found: dict[str, list[Spent]]) -> None:
    print(f"{'us a job':<10}" + "".join(f"{way:>10}" for way in WAYS) + f"{'over':>8}{'luck':>8}")
    for what in Spent._fields:
        spent = {way: [getattr(each, what) for each in found[way]] for way in WAYS}
        print(
            f"{what.removesuffix('_us'):<10}"
            + "".join(f"{median(spent[way]):>10.1f}" for way in WAYS)
            + f"{_ratio(spent['counts'], spent['without']):>8.3f}"
            + f"{_ratio(spent['counts'], spent['same']):>8.3f}"
        )


def _ratio(spent: Sequence[float], to: Sequence[float]) -> float:
    return median(one / other for one, other in zip(spent, to, strict=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--jobs", type=int, default=4000)
    parser.add_argument("--callers", type=int, default=20)
    options = parser.parse_args(arguments)
    found: dict[str, list[Spent]] = {way: [] for way in WAYS}
    for number in range(1 + options.rounds):  # the first warms up
        for way in (*list(WAYS)[number % 3 :], *list(WAYS)[: number % 3]):
            with TemporaryDirectory() as folder, WAYS[way]():
                spent = asyncio.run(measured(Path(folder), options.jobs, options.callers))
            found[way].append(spent)
    _print({way: spent[1:] for way, spent in found.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
