"""Jobs for the benchmark of the store, databases for them, and their whole lives.

The raw loop is the limit: it executes the store's statements with ready-made values, one transaction
for each step of as many lives as there are workers. A test compares the rows it leaves with the
store's.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from weakref import WeakKeyDictionary

from benchmarks.postgres import new_database
from queueing.core.jobs import JobEvent, NewJob
from queueing.core.requests import Output, TextToImage
from queueing.core.storage import Admission
from queueing.store import Database, JobStore
from queueing.store.jobs import queries
from queueing.store.jobs.rows import Row, accepted, job_row, output_rows
from queueing.store.postgres.address import read_address
from queueing.store.postgres.connection import Plain
from queueing.store.postgres.database import PostgresDatabase, open_postgres
from queueing.store.postgres.dialect import numbered
from queueing.store.postgres.session import connect
from queueing.store.sqlite.database import WRITER_PRAGMAS, SqliteDatabase, open_sqlite

MODELS = 50
NOW = 1.0e9
LIMITS = Admission(max_open=10**9, max_in_line=10**9, max_waiting=10**9)
REQUEST = TextToImage(prompt="a lighthouse in a storm, oil on canvas", seed=1234567890, steps=28)
DONE = Output(text="done")
Ground = Path | str
"""Where databases are made: in a folder, or on a PostgreSQL server with that address."""
OwnDatabase = SqliteDatabase | PostgresDatabase
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
    """Run so many workers and return the seconds until all are done."""
    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(work())
    return time.perf_counter() - started


async def lives_per_s(database: Database, workers: int, amount: int) -> float:
    """Let the first jobs live through the store; return how many do so in a second."""
    store = JobStore(database)
    await store.prepare()
    jobs = iter([new_job(number) for number in range(amount)])

    async def worker() -> None:
        for new in jobs:
            job = await store.add(new, NOW, limits=LIMITS)
            job = (await store.apply(job, JobEvent.START, NOW, runner="r", backend="b")).job
            await store.apply(job, JobEvent.COMPLETE, NOW, output=DONE)

    return amount / await together(workers, worker)


def raw_lives_per_s(database: OwnDatabase, workers: int, amount: int) -> float:
    """Write what the first jobs' lives leave; return how many are written in a second."""
    transactions = list(_raw_transactions(workers, amount))
    with closing(plain_connection(database)) as connection:
        started = time.perf_counter()
        for statements in transactions:
            connection.begin()
            for text, rows in statements:
                connection.executemany(text, rows)
            connection.commit()
        return amount / (time.perf_counter() - started)


def _raw_transactions(workers: int, amount: int) -> Iterator[list[tuple[str, list[Row]]]]:
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
