"""Jobs for the benchmark of the store, databases for them, and their whole lives.

The raw loop is the limit: it executes the store's statements with ready-made values, one transaction
for each step of as many lives as there are workers, and fetches what it added before it starts it. A
test compares the rows it leaves with the store's.
"""

import asyncio
import sqlite3
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from weakref import WeakKeyDictionary

from benchmarks.postgres import new_database
from queueing.core.jobs import Job, JobEvent, NewJob, SubmitLimits
from queueing.core.requests import Output, TextToImage
from queueing.store.jobs import queries
from queueing.store.jobs.job_store import JobStore
from queueing.store.jobs.rows import Row, accepted, job_row, output_rows
from queueing.store.postgres.connection import Plain, numbered
from queueing.store.postgres.database import PostgresDatabase, open_postgres
from queueing.store.postgres.session import connect, read_address
from queueing.store.sql.database import Database
from queueing.store.sqlite.database import WRITER_PRAGMAS, SqliteDatabase, open_sqlite

MODELS = 50
NOW = 1.0e9
LIMITS = SubmitLimits(max_open=10**9, max_queued=10**9, max_waiting=10**9)
REQUEST = TextToImage(prompt="a lighthouse in a storm, oil on canvas", seed=1234567890, steps=28)
DONE = Output(text="done")
Ground = Path | str
"""Where databases are made: in a folder, or on a PostgreSQL server with that address."""
OwnDatabase = SqliteDatabase | PostgresDatabase
_FETCH = "SELECT id FROM jobs WHERE state = 'pending' ORDER BY model, lane, seq LIMIT ?"
_addresses: WeakKeyDictionary[object, str] = WeakKeyDictionary()


def new_job(number: int) -> NewJob:
    """Return the job with that number, which is always the same."""
    return NewJob(
        model=f"model-{number % MODELS}",
        request=REQUEST,
        owner=f"telegram:{number % 997}",
        reply_to=f"telegram:{number % 997}:{number}",
        key=f"telegram:update:{number}",
    )


def job_rows(amount: int) -> list[Row]:
    """Return the rows that the store writes for the first jobs."""
    request = REQUEST.model_dump_json(exclude_none=True)
    rows = []
    for number in range(amount):
        new = new_job(number)
        job = accepted(new, number + 1, number // MODELS + 1, NOW)
        rows.append(job_row(job, new.key, request))
    return rows


def charge_rows(amount: int) -> list[Row]:
    """Return the rows that count those jobs against their owners' hours."""
    return [(number + 1, new_job(number).owner, NOW) for number in range(amount)]


@asynccontextmanager
async def database_in(ground: Ground) -> AsyncIterator[OwnDatabase]:
    """Open a new database, deleted afterwards."""
    with ExitStack() as made:
        if isinstance(ground, str):
            url = made.enter_context(new_database(ground))
            database: OwnDatabase = await open_postgres(url)
            _addresses[database] = url
        else:
            own = made.enter_context(TemporaryDirectory(dir=ground))
            database = await open_sqlite(f"sqlite:///{own}/usher.db")
        try:
            yield database
        finally:
            await database.aclose()


class PlainFile:
    """The raw loop's connection to a file, with every setting of the store's writer."""

    def __init__(self, path: Path) -> None:
        connection = sqlite3.connect(str(path), isolation_level=None)
        for pragma in WRITER_PRAGMAS:
            connection.execute(pragma)
        self.begin = partial(connection.execute, "BEGIN IMMEDIATE")
        self.executemany = connection.executemany
        self.fetch = connection.execute
        self.commit = partial(connection.execute, "COMMIT")
        self.settle = partial(connection.execute, "PRAGMA wal_checkpoint(TRUNCATE)")
        self.close = connection.close


class PlainSession:
    """The raw loop's session: one pipeline for each transaction, the fastest way psycopg has."""

    def __init__(self, url: str) -> None:
        self._plain: Plain = connect(read_address(url))
        self._pipeline: Any = None
        self.settle = partial(self._plain.execute, "VACUUM ANALYZE")
        self.close = self._plain.close

    def begin(self) -> None:
        """Begin a transaction; nothing is awaited before its end."""
        self._pipeline = self._plain.pipeline()
        self._pipeline.__enter__()
        self._plain.execute("BEGIN")

    def fetch(self, sql: str, row: Row) -> Sequence[Any]:
        """Read rows, outside a transaction."""
        return self._plain.execute(numbered(sql), row).fetchall()

    def executemany(self, sql: str, rows: Sequence[Row]) -> None:
        """Send a statement for each row."""
        self._plain.cursor().executemany(numbered(sql), rows)

    def commit(self) -> None:
        """Commit, and wait for all answers."""
        self._plain.execute("COMMIT")
        self._pipeline.__exit__(None, None, None)


def plain_connection(database: OwnDatabase) -> PlainFile | PlainSession:
    """Return a connection for the raw loop to a database of `database_in`."""
    if isinstance(database, PostgresDatabase):
        return PlainSession(_addresses[database])
    assert database.path is not None
    return PlainFile(database.path)


async def together(workers: int, work: Callable[[], Coroutine[None, None, None]]) -> float:
    """Run this many workers and return the seconds until all are done."""
    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(work())
    return time.perf_counter() - started


class _Fetched:
    """Hands each waiting job to one worker: what is looked up goes to all who wait."""

    def __init__(self, store: JobStore, workers: int) -> None:
        self.news = asyncio.Event()
        self._store = store
        self._per_queue = 1 + workers
        self._looking = asyncio.Lock()
        self._found: deque[Job] = deque()
        self._given: set[int] = set()

    async def next(self) -> Job:
        """Wait for a job that no other worker has, and return it."""
        async with self._looking:
            while not self._found:
                self.news.clear()
                for queue in await self._store.queues(NOW, per_queue=self._per_queue):
                    self._found.extend(job for job in queue.heads if job.id not in self._given)
                self._given.update(job.id for job in self._found)
                if not self._found:
                    await self.news.wait()
            return self._found.popleft()


async def lives_per_s(database: Database, workers: int, amount: int) -> float:
    """Let the first jobs live through the store; return how many do so in a second.

    As many callers add them as there are workers, and each worker fetches what anyone added.
    """
    store = JobStore(database)
    await store.prepare()
    jobs, turns = iter([new_job(number) for number in range(amount)]), iter(range(amount))
    fetched = _Fetched(store, workers)

    async def caller() -> None:
        for new in jobs:
            await store.add(new, NOW, limits=LIMITS)
            fetched.news.set()

    async def worker() -> None:
        for _ in turns:
            job = await fetched.next()
            job = (await store.apply(job, JobEvent.START, NOW, runner="r", backend="b")).job
            fetched.news.set()  # there may be another head in its queue
            await store.apply(job, JobEvent.COMPLETE, NOW, output=DONE)

    started = time.perf_counter()
    await asyncio.gather(together(workers, caller), together(workers, worker))
    return amount / (time.perf_counter() - started)


def raw_lives_per_s(database: OwnDatabase, workers: int, amount: int) -> float:
    """Write what the first jobs' lives leave; return how many are written in a second."""
    rows, charges = job_rows(amount), charge_rows(amount)
    with closing(plain_connection(database)) as connection:
        began = time.perf_counter()
        for at in range(0, amount, workers):
            those = slice(at, at + workers)
            commit(connection, (queries.INSERT_JOB, rows[those]), (queries.CHARGE, charges[those]))
            numbers = [number for (number,) in connection.fetch(_FETCH, (workers,))]
            started: list[Row] = [(1, NOW, "b", 1, "r", number, 1) for number in numbers]
            commit(connection, (queries.CHANGE[JobEvent.START], started))
            ended: list[Row] = [(NOW, None, None, number, 2) for number in numbers]
            outputs = [row for number in numbers for row in output_rows(number, DONE)]
            complete = queries.CHANGE[JobEvent.COMPLETE]
            commit(connection, (complete, ended), (queries.INSERT_OUTPUT, outputs))
        return amount / (time.perf_counter() - began)


def commit(connection: PlainFile | PlainSession, *statements: tuple[str, list[Row]]) -> None:
    """Execute each statement for its rows, all in one transaction."""
    connection.begin()
    for text, rows in statements:
        connection.executemany(text, rows)
    connection.commit()
