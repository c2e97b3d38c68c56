"""The limit next to which `benchmarks.whole --profile` puts the bot: a loop without the bot.

It creates as many tasks, writes as many changes and shows as many messages for a job as the bot did.
Changes that arrive during a flush share the next transaction, as they do in the bot.
"""

import asyncio
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from benchmarks.whole.world import drawn_image
from queueing.store.sqlite.database import WRITER_PRAGMAS

_TABLE = "CREATE TABLE jobs (id INTEGER PRIMARY KEY, state TEXT, request TEXT, version INTEGER)"
_INSERT = "INSERT INTO jobs (id, state, request, version) VALUES (?, 'pending', ?, 0)"
_UPDATE = "UPDATE jobs SET state = ?, version = version + 1 WHERE id = ? AND version = ?"
_REQUEST = (
    '{"kind": "text-to-image", "prompt": "a cat in the rain", "seed": 1234567, "size": "1024x1024"}'
)
_Change = tuple[str, Sequence[object], asyncio.Future[None]]


class GroupedWriter:
    """Writes changes from a thread; one transaction takes all that are waiting."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for statement in (*WRITER_PRAGMAS, _TABLE):
            self._database.execute(statement)
        self._waiting: list[_Change] = []
        self._wake = asyncio.Event()

    def write(self, statement: str, values: Sequence[object]) -> asyncio.Future[None]:
        """Return a future that is done once the change is on disk."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((statement, values, done))
        self._wake.set()
        return done

    async def run(self) -> None:
        """Write until cancelled."""
        with closing(self._database):
            while True:
                await self._wake.wait()
                self._wake.clear()
                batch, self._waiting = self._waiting, []
                await asyncio.to_thread(self._commit, batch)
                for _, _, done in batch:
                    done.set_result(None)

    def _commit(self, batch: Sequence[_Change]) -> None:
        self._database.execute("BEGIN IMMEDIATE")
        for statement, values, _ in batch:
            self._database.execute(statement, values)
        self._database.execute("COMMIT")


class Parts(NamedTuple):
    """The parts of one job."""

    tasks: int
    changes: int
    messages: int


async def limit_ms(folder: str, parts: Parts, *, callers: int, jobs: int) -> float:
    """Return the processor time in milliseconds of a job that consists of only these parts."""
    database, image = GroupedWriter(Path(folder, "limit.sqlite")), drawn_image()
    shown: list[tuple[str, int]] = []
    numbers = iter(range(jobs))

    async def job(number: int) -> None:
        await database.write(_INSERT, (number, _REQUEST))
        for version in range(parts.changes - 1):
            await database.write(_UPDATE, ("completed", number, version))
        shown.extend((f"job {number}: {n}", len(image)) for n in range(parts.messages))

    async def nested(depth: int, number: int) -> None:
        await (asyncio.create_task(nested(depth - 1, number)) if depth else job(number))

    async def caller() -> None:
        for number in numbers:
            await nested(parts.tasks, number)

    writing = asyncio.create_task(database.run())
    began = time.process_time()
    await asyncio.gather(*(caller() for _ in range(callers)))
    took_s = time.process_time() - began
    writing.cancel()
    await asyncio.wait({writing})
    return took_s * 1000 / jobs
