"""Whole lives of jobs (accept, start, complete), each step durable before the next: ours and others'.

The raw loop is the limit: it executes the store's own statements with ready-made values, one
transaction for each step of as many lives as there are workers. A test compares the rows it leaves
with the store's.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from huey import SqliteHuey

from benchmarks.store_jobs import (
    LIMITS,
    NOW,
    Ground,
    charge_rows,
    database_in,
    job_rows,
    new_job,
    plain_connection,
    together,
)
from queueing.core.jobs import JobEvent
from queueing.core.requests import Output
from queueing.store import Database, JobStore
from queueing.store.jobs import queries
from queueing.store.jobs.rows import Row, output_rows
from queueing.store.postgres.database import PostgresDatabase
from queueing.store.sqlite.database import SqliteDatabase

DONE = Output(text="done")
Steps = list[tuple[str, list[Row]]]


async def lives_per_s(ground: Ground, workers: int, amount: int) -> float:
    """Measure whole lives through the store."""
    async with database_in(ground) as database:
        return await live(database, workers, amount)


async def live(database: Database, workers: int, amount: int) -> float:
    """Let the first jobs live through the store; return how many did so in a second."""
    store = JobStore(database)
    await store.prepare()
    jobs = iter([new_job(number) for number in range(amount)])

    async def worker() -> None:
        for new in jobs:
            job = await store.add(new, NOW, limits=LIMITS)
            job = (await store.apply(job, JobEvent.START, NOW, runner="r", backend="b")).job
            await store.apply(job, JobEvent.COMPLETE, NOW, output=DONE)

    return amount / await together(workers, worker)


async def raw_lives_per_s(ground: Ground, workers: int, amount: int) -> float:
    """Measure the limit."""
    async with database_in(ground) as database:
        return live_raw(database, workers, amount)


def live_raw(database: SqliteDatabase | PostgresDatabase, workers: int, amount: int) -> float:
    """Write what the first jobs' lives leave; return how many were written in a second."""
    transactions = list(raw_transactions(workers, amount))
    with closing(plain_connection(database)) as connection:
        started = time.perf_counter()
        for statements in transactions:
            connection.begin()
            for text, rows in statements:
                connection.executemany(text, rows)
            connection.commit()
        return amount / (time.perf_counter() - started)


def raw_transactions(workers: int, amount: int) -> Iterator[Steps]:
    """Yield the statements of each transaction with the values of its rows."""
    numbers = range(1, amount + 1)
    accepted, charges = job_rows(amount), charge_rows(amount)
    started: list[Row] = [(1, NOW, "b", 1, "r", number, 1) for number in numbers]
    ended: list[Row] = [(NOW, None, None, number, 2) for number in numbers]
    outputs = [row for number in numbers for row in output_rows(number, DONE)]
    for at in range(0, amount, workers):
        those = slice(at, at + workers)
        yield [(queries.INSERT_JOB, accepted[those]), (queries.CHARGE, charges[those])]
        yield [(queries.CHANGE[JobEvent.START], started[those])]
        yield [
            (queries.CHANGE[JobEvent.COMPLETE], ended[those]),
            (queries.INSERT_OUTPUT, outputs[those]),
        ]


def huey_lives_per_s(folder: Path, workers: int, amount: int) -> float:
    """Measure whole lives on huey: enqueue, dequeue, execute and store the result.

    Each thread does all of it without a pause, so huey's consumer never has to poll.
    """
    with TemporaryDirectory(dir=folder) as own:
        huey = SqliteHuey(filename=f"{own}/huey.db", fsync=True, strict_fifo=True)

        @huey.task()  # type: ignore[untyped-decorator]
        def work(number: int) -> int:
            return number

        numbers = iter(range(amount))

        def worker() -> None:
            for number in numbers:
                work(number)
                huey.execute(huey.dequeue())

        threads = [threading.Thread(target=worker) for _ in range(workers)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - started
        huey.storage.close()
        return amount / took
