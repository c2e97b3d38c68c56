"""What a job costs without the bot: its tasks, its changes on the disk and its messages, nothing else.

The limit beside which `python -m benchmarks.whole --profile` puts the bot. Changes that arrive while
others are being flushed share the next transaction, like the bot's own.
"""

import asyncio
import sqlite3
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.whole_world import picture
from queueing.store.sqlite.database import WRITER_PRAGMAS

_INSERT = "INSERT INTO jobs (id, state, request, version) VALUES (?, 'pending', ?, 0)"
_UPDATE = "UPDATE jobs SET state = ?, version = version + 1 WHERE id = ? AND version = ?"
_REQUEST = (
    '{"kind": "text-to-image", "prompt": "a cat in the rain", "seed": 1234567, "size": "1024x1024"}'
)


class Grouped:
    """Writes statements from a thread, all that have come meanwhile in one transaction."""

    def __init__(self, path: Path) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._path = path
        self._waiting: list[tuple[str, Sequence[object], asyncio.Future[None]]] = []
        self._wake = asyncio.Event()

    def write(self, statement: str, values: Sequence[object]) -> asyncio.Future[None]:
        """Return what is done when a statement is on the disk."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((statement, values, done))
        self._wake.set()
        return done

    async def run(self) -> None:
        """Write until cancelled."""
        loop = asyncio.get_running_loop()
        database = await loop.run_in_executor(self._thread, self._open)
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                batch, self._waiting = self._waiting, []
                await loop.run_in_executor(self._thread, self._all, database, batch)
                for _, _, done in batch:
                    done.set_result(None)
        finally:
            self._thread.shutdown()
            database.close()

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        for pragma in WRITER_PRAGMAS:
            database.execute(pragma)
        database.execute(
            "CREATE TABLE jobs (id INTEGER PRIMARY KEY, state TEXT, request TEXT, version INTEGER)"
        )
        return database

    @staticmethod
    def _all(
        database: sqlite3.Connection,
        batch: Sequence[tuple[str, Sequence[object], asyncio.Future[None]]],
    ) -> None:
        database.execute("BEGIN IMMEDIATE")
        for statement, values, _ in batch:
            database.execute(statement, values)
        database.execute("COMMIT")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a job consists of where it is nothing else."""

    tasks: int
    changes: int
    messages: int


async def limit_ms(folder: str, cost: Cost, *, callers: int, jobs: int) -> float:
    """Return the processor time of a job that consists of nothing else, in milliseconds."""
    database, drawn = Grouped(Path(folder, "limit.sqlite")), picture()
    shown: list[tuple[str, int]] = []
    numbers = iter(range(jobs))

    async def message(text: str, content: bytes = b"") -> None:
        shown.append((text, len(content)))

    async def job(number: int) -> None:
        await database.write(_INSERT, (number, _REQUEST))
        for version in range(cost.changes - 1):
            await database.write(_UPDATE, ("completed", number, version))
        for number_of in range(cost.messages):
            await message(f"job {number}: {number_of}", drawn)

    async def nested(depth: int, number: int) -> None:
        await (asyncio.create_task(nested(depth - 1, number)) if depth else job(number))

    async def caller() -> None:
        for number in numbers:
            await nested(cost.tasks, number)

    writing = asyncio.create_task(database.run())
    began = time.process_time()
    await asyncio.gather(*(caller() for _ in range(callers)))
    took_s = time.process_time() - began
    writing.cancel()
    await asyncio.wait({writing})
    return took_s * 1000 / jobs
