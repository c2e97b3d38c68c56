"""Jobs for the benchmarks of the store, and databases to put them into."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from weakref import WeakKeyDictionary

from benchmarks.store_postgres import PlainSession, new_database
from queueing.core.jobs import NewJob
from queueing.core.requests import TextToImage
from queueing.core.storage import Admission
from queueing.store.jobs.rows import Row, accepted, job_row
from queueing.store.postgres.database import PostgresDatabase, open_postgres
from queueing.store.sqlite.database import WRITER_PRAGMAS, SqliteDatabase, open_sqlite

MODELS = 50
NOW = 1.0e9
LIMITS = Admission(max_open=10**9, max_in_line=10**9, max_waiting=10**9)
REQUEST = TextToImage(prompt="a lighthouse in a storm, oil on canvas", seed=1234567890, steps=28)


def new_job(number: int) -> NewJob:
    """Return the job with that number, the same in every part."""
    return NewJob(
        model=f"model-{number % MODELS}",
        request=REQUEST,
        owner=f"telegram:{number % 997}",
        reply_to=f"telegram:{number % 997}:{number}",
        key=f"telegram:update:{number}",
    )


def job_rows(amount: int) -> list[Row]:
    """Return the very rows the store writes for the first jobs."""
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


Ground = Path | str
"""Where databases are made: in a folder, or on a PostgreSQL server with that address."""
_addresses: WeakKeyDictionary[object, str] = WeakKeyDictionary()


@asynccontextmanager
async def database_in(ground: Ground) -> AsyncIterator[SqliteDatabase | PostgresDatabase]:
    """Open a new database, deleted afterwards."""
    with ExitStack() as made:
        if isinstance(ground, str):
            url = made.enter_context(new_database(ground))
            database: SqliteDatabase | PostgresDatabase = await open_postgres(url)
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


def plain_connection(database: SqliteDatabase | PostgresDatabase) -> PlainFile | PlainSession:
    """Return a connection for the raw loop."""
    if isinstance(database, PostgresDatabase):
        return PlainSession(_addresses[database])
    assert database.path is not None  # database_in makes files
    return PlainFile(database.path)


async def together(workers: int, work: Callable[[], Coroutine[None, None, None]]) -> float:
    """Run as many workers and return the seconds until all are done."""
    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(work())
    return time.perf_counter() - started
