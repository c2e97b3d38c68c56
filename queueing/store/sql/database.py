"""The database: the few calls that the store and the bot use, on every engine, and how they fail.

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
"""The types of a parameter. An engine stores booleans as 0 or 1, even where it has a type for them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineStatements:
    """The few statements that differ between engines."""

    last_id: str
    """The highest number any job ever had, 0 before the first."""

    overflow: str
    """(id, model, lane, owner, bulk) of the overflow jobs, by id, without reading those that ended."""

    open_after: str
    """Numbers of open jobs after a number, limited, by id; reads none that ended."""

    places: str
    """Ids and places in the line of a model and lane after a place, limited, in order.

    One row of two JSON arrays as text, both empty where none follows: thousands of rows would each
    wait for the other threads' turn.
    """

    columns: str
    """(table, column, whether it belongs to the key) of all tables both engines have, in order."""

    note_last_id: tuple[str, ...]
    """Have the next number of a job be higher than a greater one than was ever given."""

    settle_numbers: str
    """Have the next number of every other row be higher than those that were copied."""

    turn: str
    """Wait for the turn of a name and keep it to the end of the transaction.

    What the next statement reads, no other transaction that takes this turn can still change.
    """


class Cursor(Protocol):
    """The rows of a statement, each a tuple."""

    @property
    def rowcount(self) -> int:
        """The number of rows a change has touched."""

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def fetchall(self) -> list[Any]:
        """Return the remaining rows; none for a statement that returns no rows."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the remaining rows."""


class Changes(NamedTuple):
    """An UPDATE of one row or none, PostgreSQL's types of its values, and the values of each run.

    The runs have no row in common, so that an engine may do all of them in one statement.
    """

    sql: str
    kinds: Sequence[str]
    rows: Sequence[Sequence[Value]]


class Connection(Protocol):
    """A connection inside its lender's transaction; a borrower neither commits nor keeps it.

    A statement may be on its way until something of its cursor is read, and so may its failure: what
    is sent as one and read afterwards costs one way to a server and back.
    """

    @property
    def statements(self) -> EngineStatements:
        """The statements in this engine's dialect."""

    def execute(self, sql: str, parameters: Sequence[Value] = (), /) -> Cursor:
        """Run a statement."""

    def executemany(self, sql: str, parameters: Iterable[Sequence[Value]], /) -> Cursor:
        """Run a statement that returns no rows, once for each."""

    def insert_files(self, sql: str, rows: Sequence[Sequence[Value]], /) -> None:
        """Insert rows whose values may be large; none of them stays in memory."""

    def selectmany(
        self, sql: str, parameters: Iterable[Sequence[Value]], /
    ) -> Sequence[Sequence[Any]]:
        """Run a statement that returns rows, once for each; return the rows of each."""

    def changemany(self, groups: Sequence[Changes], /) -> Sequence[Sequence[bool]]:
        """Run groups of changes, one group after the other; return which runs changed a row."""

    def piece(self, table: str, key: Mapping[str, Value], start: int, length: int) -> bytes | None:
        """Return up to `length` bytes from `start` of the column `data` of the row with this key.

        Large files need not be in memory to be sent. None if there is no such row.
        """

    def is_spoilt_by(self, error: Exception) -> bool:
        """Return whether the transaction cannot go on: the engine failed, not what it was told."""

    def scrub(self) -> None:
        """Overwrite what was deleted wherever the engine can, after the commit. Never raises."""


# ------------------------------------------------------------ how it fails


class DiskFull(StoreError):
    """There is no space for the change; it can succeed later."""


class DatabaseAway(StoreError):
    """The database does not answer; nothing was written, and a later try can succeed."""


class Damaged(StoreError):
    """The database contains something that its engine never wrote; no later try can succeed."""


DISK_FULL = (
    "the disk is full, or the database as large as `retention.size` lets it become: make room;"
    " nothing is lost meanwhile"
)

# ---------------------------------------------------------------- the database


class Damage:
    """Remembers the first damage that any connection met, and reports it to the operator once."""

    def __init__(self) -> None:
        self.met: str | None = None

    def look(self, failure: Exception) -> None:
        """Note a failure if it is damage."""
        if isinstance(failure, Damaged):
            self.note(str(failure))

    def note(self, what: str) -> None:
        """Remember it, unless there is an earlier one."""
        if self.met is None:
            self.met = what
            log.error("%s; until then nothing new is accepted", what)


def _changed(connection: Connection, changes: Sequence[Callable[[Any], Any]]) -> list[Any]:
    return [_in_savepoint(connection, change) for change in changes]


def _in_savepoint(connection: Connection, change: Callable[[Any], Any]) -> Any:
    """Run a change that alone is undone if it raises, so that its neighbours need not wait.

    On a server, both statements are under way with the change's own and cost no further way.
    """
    connection.execute("SAVEPOINT change")
    try:
        result = change(connection)
    except Exception as error:
        if connection.is_spoilt_by(error):
            raise  # the whole transaction starts again, each change alone
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
                raise  # each is asked alone
            results.append(error)
    return results


CHANGES: ChangeKind[Callable[[Any], Any], Any] = ChangeKind(run=_changed)
SCRUBBED: ChangeKind[Callable[[Any], Any], Any] = ChangeKind(
    run=_changed, after=lambda connection: connection.scrub()
)
QUERIES: ChangeKind[Callable[[Any], Any], Any] = ChangeKind(run=_answered)


class Database(ABC):
    """The database of an installation, shared by the queue and the bot; one class for each engine.

    All methods may be called concurrently and cancelled. Errors: `StoreError` when the database
    fails, including `DiskFull` and `Damaged`.

    `id` is created once for each database; `run` names this opening, and no other one ever has that
    name; `alone` is whether no other process can write it while it is open.
    """

    size_query: ClassVar[str]  # the bytes in use
    _writer: Batcher
    _reader: Batcher

    def __init__(self, database_id: UUID, run: str, damage: Damage, *, alone: bool) -> None:
        self.id = database_id
        self.run = run
        self.alone = alone
        self._damage = damage

    @property
    def numbers_used(self) -> int:
        """Up to which number jobs may have been that the database does not know any more."""
        return 0

    async def fenced(self) -> None:
        """Wait until the database refuses what is written here; never returns. Raises `Fenced`."""
        await asyncio.get_running_loop().create_future()

    async def runs(self) -> frozenset[str]:
        """Return the openings, of all processes, that have not ended."""
        return frozenset({self.run})

    @property
    def damage(self) -> str | None:
        """What to do about damage found since the database was opened, None without any.

        Data written into a damaged database is lost when the operator restores a backup.
        """
        return self._damage.met

    def look_at_file(self) -> str | None:
        """Return `damage`, after a look at whether the database is still the one that was opened.

        May block for a moment; call it now and then.
        """
        return self.damage

    def is_short_of_disk(self) -> bool:
        """Return whether the remaining disk space is reserved for jobs accepted before."""
        return False

    async def write(self, change: Callable[[Connection], T]) -> T:
        """Run a change in the writer's next transaction; return once it is durable.

        The change must neither commit nor block on anything but its connection, which it gets in
        another thread. When it raises, it alone is undone and the caller gets the exception. It may
        run a second time if the transaction around it fails.
        """
        result: T = await self._writer.submit(CHANGES, change)
        return result

    async def write_and_scrub(self, change: Callable[[Connection], T]) -> T:
        """Run a change as `write` does; deleted data is overwritten as far as the engine can."""
        result: T = await self._writer.submit(SCRUBBED, change)
        return result

    def time_commits(self, timed: Callable[[float], None]) -> None:
        """Call a function with the seconds that each of the writer's transactions takes."""
        self._writer.timed = timed

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run a query that sees everything written before and cannot write.

        Raises `StoreError` when the database fails, otherwise what the query raises.
        """
        result: T = await self._reader.submit(QUERIES, query)
        return result

    async def used_mb(self) -> int:
        """Return how much of the database is in use, in MB, rounded up."""
        (used,) = await self.read(lambda connection: connection.execute(self.size_query).fetchone())
        return -(-int(used) // _MB)

    def submit(self, kind: ChangeKind[Item, Result], item: Item) -> asyncio.Future[Result]:
        """Apply a change of a known kind with the writer's next transaction."""
        return self._writer.submit(kind, item)

    async def aclose(self) -> None:
        """Finish waiting work and close. Idempotent.

        A cancellation is raised once everything is closed: a task group that fails while it is
        cancelled cancels its task once more, in the middle of the closing.
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
