"""How fast the store is, next to its limits in the same run: a raw loop, and other queues.

`python -m benchmarks.store [--json] [--quick] [--dir DIR | --database postgresql://… [--delay-ms MS]]`.
The databases are made under `--dir` (by default the system's temporary folder), which should be on the
disk that matters; every figure is with WAL and `synchronous=FULL`. Keys of the JSON:

- `submits_per_s`, `raw_per_s`: acknowledged inserts by number of concurrent callers. The raw loop
  writes ready-made rows to the same tables and indexes, that many in each transaction. Both are
  medians of rounds that take turns.
- `lives_per_s`, `raw_lives_per_s`, `huey_lives_per_s`: whole no-op lives (accept, fetch, start,
  complete, each durable before the next) by number of workers, which fetch what as many callers add.
  The raw loop executes the store's statements with ready-made values, one transaction for each step
  of as many lives as there are workers. All are medians of rounds that take turns.
  With `--database` the raw loop is psycopg's, one pipeline for each transaction, and
  `peer_lives_per_s` has a loop of SKIP LOCKED. `server` has the settings that matter; a server that
  does not flush its commits is refused. With `--delay-ms`, each round trip to the server takes that
  much longer for everyone.
- `submit_to_start_ms`: from calling `add` until a waiting worker has stored the start durably.
- `claim_us`: one claim of 50 made together (find the heads of 50 models, start them all, flush
  included) by number of waiting jobs; `position_us`: one call for one job, likewise.
"""

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from benchmarks.figures import medians, show
from benchmarks.postgres import new_database, what_is_measured
from benchmarks.store.delay_proxy import delayed
from benchmarks.store.jobs import (
    LIMITS,
    MODELS,
    NOW,
    Ground,
    charge_rows,
    commit,
    database_in,
    job_rows,
    lives_per_s,
    new_job,
    plain_connection,
    raw_lives_per_s,
    together,
)
from benchmarks.store.rivals import huey_lives_per_s, skip_locked_lives_per_s
from queueing.core.jobs import JobEvent
from queueing.store.jobs import queries
from queueing.store.jobs.job_store import JobStore

SUBMITS = {1: 3_000, 10: 20_000, 100: 60_000, 1_000: 100_000}  # by callers; a tenth if quick
LIVES = {1: 1_000, 10: 10_000, 100: 30_000}  # by workers, likewise
DEPTHS, QUICK_DEPTHS = (1_000, 100_000, 1_000_000), (1_000, 10_000)
FILLED_AT_ONCE = 10_000
ASKED = 2_000  # positions

Figures = dict[str, dict[str, Any]]


async def submits_per_s(ground: Ground, callers: int, amount: int) -> float:
    """Measure acknowledged acceptances through the store."""
    async with database_in(ground) as database:
        store = JobStore(database)
        await store.positions([])  # reads the places, once per start
        jobs = iter([new_job(number) for number in range(amount)])

        async def caller() -> None:
            for new in jobs:
                await store.add(new, NOW, limits=LIMITS)

        return amount / await together(callers, caller)


async def raw_per_s(ground: Ground, callers: int, amount: int) -> float:
    """Measure the limit: the same rows, one transaction for as many as there are callers."""
    async with database_in(ground) as database:
        rows, charges = job_rows(amount), charge_rows(amount)
        with closing(plain_connection(database)) as connection:
            started = time.perf_counter()
            for at in range(0, amount, callers):
                those = slice(at, at + callers)
                commit(
                    connection, (queries.INSERT_JOB, rows[those]), (queries.CHARGE, charges[those])
                )
            return amount / (time.perf_counter() - started)


async def submits_of_all(ground: Ground, callers: int, amount: int) -> dict[str, float]:
    """Measure store and raw loop once."""
    return {
        "raw_per_s": await raw_per_s(ground, callers, amount),
        "submits_per_s": await submits_per_s(ground, callers, amount),
    }


async def lives_of_all(ground: Ground, workers: int, amount: int) -> dict[str, Any]:
    """Measure each once; the other queues are slower and get fewer."""
    found: dict[str, Any] = {}
    async with database_in(ground) as database:
        found["raw_lives_per_s"] = raw_lives_per_s(database, workers, amount)
    async with database_in(ground) as database:
        found["lives_per_s"] = await lives_per_s(database, workers, amount)
    fewer = max(workers * 3, amount // 5)
    if isinstance(ground, str):
        with new_database(ground) as url:
            peer = round(await skip_locked_lives_per_s(url, workers, fewer))
        return found | {"peer_lives_per_s": {"skip_locked": peer}}
    return found | {"huey_lives_per_s": huey_lives_per_s(ground, workers, fewer)}


async def in_turns(
    measure_all: Callable[[Ground, int, int], Awaitable[dict[str, Any]]],
    ground: Ground,
    sizes: dict[int, int],
    rounds: int,
) -> Figures:
    """Let all take turns, so that they meet the same disk and the same other work."""
    found: Figures = {}
    for number, amount in sizes.items():
        turns = [await measure_all(ground, number, amount) for _ in range(rounds)]
        for name, figure in medians(turns, round).items():
            found.setdefault(name, {})[str(number)] = figure
    return found


async def measure_submit_to_start(ground: Ground, amount: int) -> dict[str, float]:
    """Time one job at a time from calling `add` to its start being stored."""
    async with database_in(ground) as database:
        store = JobStore(database)
        accepted: asyncio.Queue[object] = asyncio.Queue()
        started: asyncio.Queue[float] = asyncio.Queue()

        async def worker() -> None:
            while await accepted.get() is not None:
                (queue,) = await store.queues(NOW, per_queue=1)
                await store.apply(queue.heads[0], JobEvent.START, NOW, runner="r", backend="b")
                started.put_nowait(time.perf_counter())

        waits = []
        async with asyncio.TaskGroup() as group:
            group.create_task(worker())
            for number in range(amount):
                called = time.perf_counter()
                accepted.put_nowait(await store.add(new_job(number), NOW, limits=LIMITS))
                waits.append((await started.get() - called) * 1000)
            accepted.put_nowait(None)
    waits.sort()
    return {
        "p50": round(statistics.median(waits), 3),
        "p99": round(waits[int(len(waits) * 0.99)], 3),
    }


async def measure_depth(ground: Ground, depth: int, seed: int) -> tuple[float, float]:
    """Return the microseconds of a claim and of a position with that many waiting."""
    async with database_in(ground) as database:
        with closing(plain_connection(database)) as connection:
            rows = job_rows(depth)
            for at in range(0, depth, FILLED_AT_ONCE):
                commit(connection, (queries.INSERT_JOB, rows[at : at + FILLED_AT_ONCE]))
            connection.settle()
        store = JobStore(database)
        await store.positions([])
        position = await position_us(store, depth, random.Random(seed))
        return await claim_us(store, rounds=min(depth // MODELS, 100)), position


async def claim_us(store: JobStore, rounds: int) -> float:
    """Find the heads of all models and start them together, again and again."""
    costs = []
    for _ in range(rounds):
        started = time.perf_counter()
        heads = [queue.heads[0] for queue in await store.queues(NOW, per_queue=1)]
        async with asyncio.TaskGroup() as group:
            for head in heads:
                group.create_task(store.apply(head, JobEvent.START, NOW, runner="r", backend="b"))
        costs.append((time.perf_counter() - started) / len(heads) * 1e6)
    return round(statistics.median(costs), 2)


async def position_us(store: JobStore, depth: int, dice: random.Random) -> float:
    """Ask for one job at a time, after one in a hundred has left the middle of its queue."""
    for job_id in dice.sample(range(1, depth + 1), min(1_000, depth // 100)):
        job = await store.get(job_id)
        if job is not None:
            await store.apply(job, JobEvent.CANCEL, NOW)
    costs = []
    for _ in range(ASKED):
        job_ids = [dice.randint(1, depth)]
        started = time.perf_counter()
        await store.positions(job_ids)
        costs.append((time.perf_counter() - started) * 1e6)
    return round(statistics.fmean(costs), 2)


async def measure(ground: Ground, *, quick: bool, seed: int) -> dict[str, object]:
    """Measure everything."""
    share, rounds = (10, 1) if quick else (1, 5)
    found: dict[str, object] = {"seed": seed}
    if isinstance(ground, str):
        found["server"] = what_is_measured(ground)
    for measure_all, sizes in ((submits_of_all, SUBMITS), (lives_of_all, LIVES)):
        smaller = {number: amount // share for number, amount in sizes.items()}
        found |= await in_turns(measure_all, ground, smaller, rounds)
    found["submit_to_start_ms"] = await measure_submit_to_start(ground, 2_000 // share)
    costs = {
        str(depth): await measure_depth(ground, depth, seed)
        for depth in (QUICK_DEPTHS if quick else DEPTHS)
    }
    found["claim_us"] = {depth: claim for depth, (claim, _) in costs.items()}
    found["position_us"] = {depth: position for depth, (_, position) in costs.items()}
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser("benchmarks.store", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="a small run of some seconds")
    parser.add_argument("--dir", type=Path, default=None, help="where to make the databases")
    where = "measure on this server instead; databases are made there and dropped"
    parser.add_argument("--database", metavar="postgresql://…", help=where)
    parser.add_argument("--delay-ms", type=float, default=0.0, help="a longer way to that server")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        ground: Ground = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.dir)))
        if options.database is not None:
            ground = stack.enter_context(delayed(options.database, options.delay_ms))
        found = asyncio.run(measure(ground, quick=options.quick, seed=options.seed))
    show(found, as_json=options.json)


if __name__ == "__main__":
    main()
