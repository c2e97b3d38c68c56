"""Whole lives of jobs on other queues: enqueue, fetch what anyone enqueued, run nothing, end.

huey is installed for development, and SKIP LOCKED needs psycopg alone. The other queues for
PostgreSQL are measured if they are installed: `pip install procrastinate pgqueuer asyncpg` brings them.
"""

import asyncio
import importlib.util
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, LiteralString

import psycopg
from huey import SqliteHuey

from benchmarks.postgres import new_database
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


async def procrastinate_lives_per_s(url: str, workers: int, amount: int) -> float:
    """Measure procrastinate, with its worker in the same process."""
    import procrastinate  # noqa: PLC0415  # may be missing

    connector = procrastinate.PsycopgConnector(conninfo=url, max_size=_CONNECTIONS)
    app = procrastinate.App(connector=connector)
    left, ended = iter(range(1, amount)), asyncio.Event()

    @app.task(name="work")  # type: ignore[untyped-decorator]
    async def work(number: int) -> None:
        del number
        if next(left, None) is None:
            ended.set()

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        serving = app.run_worker_async(concurrency=workers, install_signal_handlers=False)
        return await _timed(
            workers, amount, lambda number: work.defer_async(number=number), serving, ended
        )


async def pgqueuer_lives_per_s(url: str, workers: int, amount: int) -> float:
    """Measure pgqueuer over asyncpg, with its worker in the same process."""
    import asyncpg  # noqa: PLC0415  # may be missing
    from pgqueuer import PgQueuer  # noqa: PLC0415  # as above
    from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver  # noqa: PLC0415  # as above
    from pgqueuer.queries import Queries  # noqa: PLC0415  # as above

    connection = await asyncpg.connect(url)
    pool = await asyncpg.create_pool(url, max_size=_CONNECTIONS)
    queries, queue = Queries(AsyncpgPoolDriver(pool)), PgQueuer(AsyncpgDriver(connection))
    await queries.install()
    left, ended = iter(range(1, amount)), asyncio.Event()

    @queue.entrypoint("work")  # type: ignore[untyped-decorator]
    async def work(_: object) -> None:
        if next(left, None) is None:
            ended.set()

    serving = queue.run(batch_size=workers)
    try:
        return await _timed(workers, amount, lambda _: queries.enqueue("work", b""), serving, ended)
    finally:
        await pool.close()
        await connection.close()


async def _timed(
    workers: int,
    amount: int,
    enqueue: Callable[[int], Awaitable[object]],
    serving: Awaitable[object],
    ended: asyncio.Event,
) -> float:
    """Enqueue with as many callers as there are workers; return how many lives end per second."""
    numbers = iter(range(amount))

    async def caller() -> None:
        for number in numbers:
            await enqueue(number)

    worker = asyncio.ensure_future(serving)
    started = time.perf_counter()
    await together(workers, caller)
    await ended.wait()
    took = time.perf_counter() - started
    worker.cancel()
    await asyncio.wait({worker}, timeout=10)
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
        arrived, turns, ended = asyncio.Semaphore(0), iter(range(amount)), asyncio.Event()

        async def worker() -> None:
            for _ in turns:
                await arrived.acquire()
                row = await execute(_FETCH)
                await execute("UPDATE work SET state = 'done' WHERE id = %s", *(row or ()))

        async def add(_: int) -> None:
            await execute("INSERT INTO work (state, request) VALUES ('waiting', %s)", request)
            arrived.release()

        async def serve() -> None:
            await together(workers, worker)
            ended.set()

        return await _timed(workers, amount, add, serve(), ended)


PEERS = {
    "skip_locked": skip_locked_lives_per_s,
    "procrastinate": procrastinate_lives_per_s,
    "pgqueuer": pgqueuer_lives_per_s,
}


async def peer_lives_per_s(server: str, workers: int, amount: int) -> dict[str, float]:
    """Measure those for PostgreSQL that are installed, each in a new database."""
    found: dict[str, float] = {}
    for name, measure in PEERS.items():
        if name == "skip_locked" or importlib.util.find_spec(name) is not None:
            with new_database(server) as url:
                found[name] = round(await measure(url, workers, amount))
    return found
