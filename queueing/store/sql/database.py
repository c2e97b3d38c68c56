"""The interface to the database for the store and the bot, the same for every engine.

SQL is written in the dialect that SQLite and PostgreSQL share, with `?` for a value.
"""

import asyncio
import logging
from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar
from uuid import UUID

from queueing.core.concurrency import undisturbed
from queueing.core.errors import StoreError
from queueing.store.sql.batcher import Batcher, ChangeKind, Item, Result

log = logging.getLogger(__name__)

T = TypeVar("T")
_MB = 1024 * 1024

Value = str | int | float | bytes | None
"""The types of parameters. Booleans are stored as 0 or 1 by both engines."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineStatements:
    """The statements that differ between engines."""

    last_id: str
    """The highest job id ever used, 0 before the first."""

    overflow: str
    """(id, model, lane, owner, bulk) of the overflow jobs, by id, without reading ended jobs."""

    open_after: str
    """Ids of open jobs after an id, limited, in order, without reading ended jobs."""

    places: str
    """Ids and places in the queue of a model and lane after a place, limited, in order.

    Returns one row with two JSON arrays as text, both empty if nothing follows. With thousands of
    rows, the thread would have to wait for the interpreter lock as often.
    """

    columns: str
    """(table, column, is in the key) for all tables that both engines have, in order."""

    note_last_id: tuple[str, ...]
    """Raise the job id counter to an id greater than any used before."""

    settle_numbers: str
    """Advance the id counters of all other tables past the copied rows."""

    turn: str
    """Acquire a named lock, and hold it until the end of the transaction.

    No other transaction that takes this lock can change what the following statements read.
    """


class Cursor(Protocol):
    """The rows of a statement, each a tuple."""

    @property
    def rowcount(self) -> int:
        """The number of rows that a change has affected."""

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def fetchall(self) -> list[Any]:
        """Return the remaining rows. Empty for a statement that returns no rows."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the remaining rows."""


class Changes(NamedTuple):
    """An UPDATE of at most one row, its PostgreSQL parameter types, and the parameters of each run.

    No two runs affect the same row, so an engine may combine them into one statement.
    """

    sql: str
    kinds: Sequence[str]
    rows: Sequence[Sequence[Value]]


class Connection(Protocol):
    """A connection within its owner's transaction. Borrowers must neither commit nor keep it.

    A statement may be sent without waiting for its result. Reading from a cursor waits, and raises
    the failures of statements sent earlier. Statements that are sent together and read afterwards
    cost a single round trip.
    """

    @property
    def statements(self) -> EngineStatements:
        """The engine-specific statements."""

    def execute(self, sql: str, parameters: Sequence[Value] = (), /) -> Cursor:
        """Run a statement."""

    def executemany(self, sql: str, parameters: Iterable[Sequence[Value]], /) -> Cursor:
        """Run a statement that returns no rows once per parameter set."""

    def insert_files(self, sql: str, rows: Sequence[Sequence[Value]], /) -> None:
        """Insert rows whose values may be large, without keeping any in memory."""

    def selectmany(
        self, sql: str, parameters: Iterable[Sequence[Value]], /
    ) -> Sequence[Sequence[Any]]:
        """Run a query once per parameter set. Returns the rows of each run."""

    def changemany(self, groups: Sequence[Changes], /) -> Sequence[Sequence[bool]]:
        """Run groups of changes one after the other. Returns which runs changed a row."""

    def piece(self, table: str, key: Mapping[str, Value], start: int, length: int) -> bytes | None:
        """Return up to `length` bytes from `start` of the column `data` of a row.

        Returns None if the row does not exist. Large files can thus be sent without being in memory
        as a whole.
        """

    def is_spoilt_by(self, error: Exception) -> bool:
        """Return whether the engine has failed, so that the transaction cannot continue."""

    def scrub(self) -> None:
        """Overwrite deleted data after the commit, as far as the engine can. Never raises."""


# ------------------------------------------------------------ how it fails


class DiskFull(StoreError):
    """There is no space for a change. It can succeed later."""


class DatabaseAway(StoreError):
    """The database does not answer. Nothing was written, and a retry can succeed."""


class Damaged(StoreError):
    """The database contains data that its engine did not write. Retrying cannot succeed."""


DISK_FULL = (
    "the disk is full, or the database has reached `retention.size`: free some space;"
    " nothing is lost"
)


# ---------------------------------------------------------------- the database


class Damage:
    """Keeps the first damage found by any connection, and logs it once."""

    def __init__(self) -> None:
        self.met: str | None = None

    def look(self, failure: Exception) -> None:
        """Record a failure if it is damage."""
        if isinstance(failure, Damaged):
            self.note(str(failure))

    def note(self, what: str) -> None:
        """Record damage, unless some was recorded before."""
        if self.met is None:
            self.met = what
            log.error("%s; until then nothing new is accepted", what)


def _changed(connection: Connection, changes: Sequence[Callable[[Any], Any]]) -> list[Any]:
    return [_in_savepoint(connection, change) for change in changes]


def _in_savepoint(connection: Connection, change: Callable[[Any], Any]) -> Any:
    """Run a change that is rolled back alone if it raises, without failing the rest of the batch.

    On a server, the savepoint statements are sent together with the change and cost no extra round
    trip.
    """
    connection.execute("SAVEPOINT change")
    try:
        result = change(connection)
    except Exception as error:
        if connection.is_spoilt_by(error):
            raise  # the batch is retried, with each change in its own transaction
        connection.execute("ROLLBACK TO SAVEPOINT change")
        result = error
    connection.execute("RELEASE SAVEPOINT change")
    return result


def _answered(connection: Connection, queries: Sequence[Callable[[Any], Any]]) -> list[Any]:
    results: list[Any] = []
    for query in queries:
        try:
            results.append(query(connection))
        except Exception as error:
            if connection.is_spoilt_by(error):
                raise  # each query is retried alone
            results.append(error)
    return results


CHANGES: ChangeKind[Callable[[Any], Any], Any] = ChangeKind(run=_changed)
SCRUBBED: ChangeKind[Callable[[Any], Any], Any] = ChangeKind(
    run=_changed, after=lambda connection: connection.scrub()
)
QUERIES: ChangeKind[Callable[[Any], Any], Any] = ChangeKind(run=_answered)


class Database(ABC):
    """The database of an installation, shared by the queue and the bot. Each engine has a subclass.

    All methods may be called concurrently and cancelled. They raise `StoreError` if the database
    fails, including its subclasses `DiskFull` and `Damaged`.

    `id` is created once per database. `run` is a unique name for this opening of the database.
    `alone` is set if no other process can write to it while it is open.
    """

    size_query: ClassVar[str]  # returns the bytes in use
    _writer: Batcher
    _reader: Batcher

    def __init__(self, database_id: UUID, run: str, damage: Damage, *, alone: bool) -> None:
        self.id = database_id
        self.run = run
        self.alone = alone
        self._damage = damage

    @property
    def numbers_used(self) -> int:
        """The highest job id that may have been used, even if the database has lost the job."""
        return 0

    async def fenced(self) -> None:
        """Wait until the database rejects this process's writes, then raise `Fenced`."""
        await asyncio.get_running_loop().create_future()

    async def runs(self) -> frozenset[str]:
        """Return the `run` of every opening, by any process, that has not ended."""
        return frozenset({self.run})

    @property
    def damage(self) -> str | None:
        """What to do about damage found since the database was opened, or None.

        What is written to a damaged database is lost when the operator restores a backup.
        """
        return self._damage.met

    def look_at_file(self) -> str | None:
        """Check whether the database is still the one that was opened, and return `damage`.

        May block briefly. Call it periodically.
        """
        return self.damage

    def is_short_of_disk(self) -> bool:
        """Return whether the remaining disk space is reserved for jobs already accepted."""
        return False

    async def write(self, change: Callable[[Connection], T]) -> T:
        """Run a change in the writer's next transaction. Returns once it is durable.

        The change receives a connection in another thread. It must neither commit nor block on
        anything else. If it raises, it alone is rolled back and the caller gets the exception. It
        may run twice if the transaction around it fails.
        """
        result: T = await self._writer.submit(CHANGES, change)
        return result

    async def write_and_scrub(self, change: Callable[[Connection], T]) -> T:
        """Run a change as `write` does, then overwrite deleted data as far as the engine can."""
        result: T = await self._writer.submit(SCRUBBED, change)
        return result

    def time_commits(self, timed: Callable[[float], None]) -> None:
        """Call `timed` with the duration of each of the writer's transactions, in seconds."""
        self._writer.timed = timed

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run a read-only query that sees everything written before.

        Raises `StoreError` if the database fails, and whatever the query raises.
        """
        result: T = await self._reader.submit(QUERIES, query)
        return result

    async def row(self, sql: str, parameters: Sequence[Value] = ()) -> Any:
        """Return the first row of a query, or None, as `read` does."""
        return await self.read(lambda connection: connection.execute(sql, parameters).fetchone())

    async def rows(self, sql: str, parameters: Sequence[Value] = ()) -> list[Any]:
        """Return the rows of a query, as `read` does. For few rows: the caller reads them."""
        return await self.read(lambda connection: connection.execute(sql, parameters).fetchall())

    async def execute(self, sql: str, parameters: Sequence[Value] = ()) -> None:
        """Run one statement in the writer's next transaction, as `write` does."""
        await self.write(lambda connection: connection.execute(sql, parameters))

    async def executemany(self, sql: str, parameters: Sequence[Sequence[Value]]) -> None:
        """Run a statement once per parameter set, as `write` does."""
        await self.write(lambda connection: connection.executemany(sql, parameters))

    async def used_mb(self) -> int:
        """Return the size of the database in use, in MB, rounded up."""
        (used,) = await self.row(self.size_query)
        return -(-int(used) // _MB)

    def submit(self, kind: ChangeKind[Item, Result], item: Item) -> asyncio.Future[Result]:
        """Apply a change of a kind in the writer's next transaction."""
        return self._writer.submit(kind, item)

    async def aclose(self) -> None:
        """Finish waiting work and close. Idempotent.

        A cancellation is raised only once everything is closed. A task group that fails while it is
        being cancelled cancels its task a second time, in the middle of closing.
        """
        closing = asyncio.ensure_future(self._close())
        try:
            await undisturbed(closing)
        except asyncio.CancelledError:
            await asyncio.wait({closing})
            raise

    async def _close(self) -> None:
        if self._reader is not self._writer:
            await self._reader.aclose()
        await self._writer.aclose()
