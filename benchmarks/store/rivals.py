"""Whole lives of jobs on other queues: enqueue, fetch what anyone enqueued, run nothing, end."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, LiteralString

import psycopg
from huey import SqliteHuey

from benchmarks.store.jobs import REQUEST, together

_CONNECTIONS = 10
_WORK = "CREATE TABLE work (id bigserial PRIMARY KEY, state text NOT NULL, request text NOT NULL)"
_FETCH = (
    "UPDATE work SET state = 'running' WHERE id = (SELECT id FROM work WHERE state = 'waiting'"
    " ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
)


def huey_lives_per_s(folder: Path, workers: int, amount: int) -> float:
    """Measure huey on SQLite.

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

        started = time.perf_counter()
        with ThreadPoolExecutor(workers) as pool:
            for done in [pool.submit(worker) for _ in range(workers)]:
                done.result()
        took = time.perf_counter() - started
        huey.storage.close()
        return amount / took


async def skip_locked_lives_per_s(url: str, workers: int, amount: int) -> float:
    """Measure what every queue on PostgreSQL is made of: one row at a time, fetched by SKIP LOCKED."""
    connections: asyncio.Queue[psycopg.AsyncConnection[Any]] = asyncio.Queue()
    async with AsyncExitStack() as stack:
        for _ in range(_CONNECTIONS):
            connecting = psycopg.AsyncConnection.connect(url, autocommit=True)
            connections.put_nowait(await stack.enter_async_context(await connecting))

        async def execute(sql: LiteralString, *values: object) -> tuple[Any, ...] | None:
            connection = await connections.get()
            try:
                cursor = await connection.execute(sql, values)
                return await cursor.fetchone() if cursor.description else None
            finally:
                connections.put_nowait(connection)

        await execute(_WORK)
        await execute("CREATE INDEX ON work (id) WHERE state = 'waiting'")
        request = REQUEST.model_dump_json(exclude_none=True)
        arrived, turns, numbers = asyncio.Semaphore(0), iter(range(amount)), iter(range(amount))

        async def worker() -> None:
            for _ in turns:
                await arrived.acquire()
                row = await execute(_FETCH)
                await execute("UPDATE work SET state = 'done' WHERE id = %s", *(row or ()))

        async def caller() -> None:
            for _ in numbers:
                await execute("INSERT INTO work (state, request) VALUES ('waiting', %s)", request)
                arrived.release()

        started = time.perf_counter()
        await asyncio.gather(together(workers, caller), together(workers, worker))
        return amount / (time.perf_counter() - started)
