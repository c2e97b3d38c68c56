"""Two processes on one database, and overlapping transactions of both."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest

from bot.app.setup import MIGRATIONS
from queueing.store.engines import open_database
from queueing.store.sql.database import Connection, Database, Value

if TYPE_CHECKING:
    from uuid import UUID

T = TypeVar("T")
BOUND_S = 60.0
_WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    " AND datname = current_database()"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Two:
    """The databases of two processes; the same one where an engine supports only one process."""

    one: Database
    other: Database

    @property
    def apart(self) -> bool:
        """Return whether their transactions can overlap."""
        return self.one is not self.other

    async def overlapping(
        self,
        first: Callable[[Database], Awaitable[T]],
        second: Callable[[Database], Coroutine[Any, Any, T]],
    ) -> list[T | BaseException]:
        """Do the second before the first is committed, and return both results.

        What the second reads, it reads while the first is not visible; what it waits for, it gets.
        """
        if not self.apart:
            return [
                *await asyncio.gather(first(self.one), return_exceptions=True),
                *await asyncio.gather(second(self.other), return_exceptions=True),
            ]
        held = _Held(self.one)
        doing = asyncio.ensure_future(first(cast("Database", held)))
        try:
            await held.reached()
            beside = asyncio.ensure_future(second(self.other))
            async with asyncio.timeout(BOUND_S):
                while not (beside.done() or await self.one.read(_someone_waits)):
                    pass  # the server has been asked by now
        finally:
            held.release()
        return list(await asyncio.gather(doing, beside, return_exceptions=True))


class _Held:
    """A `Database` whose first change stays uncommitted until it is released."""

    def __init__(self, database: Database) -> None:
        self.id: UUID = database.id
        self._database = database
        self._reached = threading.Event()
        self._released = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, BOUND_S)

    def release(self) -> None:
        self._released.set()

    async def write(self, change: Callable[[Connection], T]) -> T:
        def held(connection: Connection) -> T:
            try:
                result = change(connection)
                connection.execute("SELECT 1").fetchone()  # whatever is on its way has arrived
            finally:
                self._reached.set()
            assert self._released.wait(BOUND_S)
            return result

        return await self._database.write(held)

    write_and_scrub = write

    async def execute(self, sql: str, parameters: Sequence[Value] = ()) -> None:
        await self.write(lambda connection: connection.execute(sql, parameters))


async def gone(run: str, seen_by: Database) -> None:
    """Wait until the server has noticed that a connection's user has ended."""
    async with asyncio.timeout(BOUND_S):
        while run in await seen_by.runs():
            pass  # the server has been asked by now


def _someone_waits(connection: Connection) -> bool:
    return bool(connection.execute(_WAITING).fetchone()[0])


@pytest.fixture(params=["sqlite", "postgres"])
async def two(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Two]:
    """Provide the databases of two processes; on SQLite they are two parts of one process."""
    async with AsyncExitStack() as stack:

        async def opened(url: str, *, shared: bool) -> Database:
            database = await open_database(url, migrations=(MIGRATIONS,), shared=shared)
            stack.push_async_callback(database.aclose)
            return database

        if request.param == "sqlite":
            alone = await opened(f"sqlite:///{tmp_path}/usher.sqlite", shared=False)
            yield Two(one=alone, other=alone)
        else:
            url = str(request.getfixturevalue("postgres_url"))
            yield Two(one=await opened(url, shared=True), other=await opened(url, shared=True))
