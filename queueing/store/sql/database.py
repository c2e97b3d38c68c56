"""The port of a database engine: the few calls that the store and the bot use, and how they fail.

SQL is written in the dialect that SQLite and PostgreSQL share, with `?` for a value.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

from queueing.core.errors import StoreError

T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")

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


_HEAD = re.compile(r"-- schema (\d+)\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class MigrationSet:
    """The tables of one part of the program, as numbered SQL files: `0001_queue.sql`, `0002_…`.

    Each engine has a folder, `directory` for SQLite and `postgres` for PostgreSQL, and both make the
    same tables. The first line of the first file is `-- schema NUMBER`, the number of the schema it
    makes; each further file makes the next one.
    """

    name: str
    directory: Traversable | Path
    postgres: Traversable | Path | None = None

    def files(self) -> list[tuple[int, str]]:
        """Return (schema number, SQL) in order for SQLite; raises `ValueError` for wrong numbers."""
        return self._read(self.directory)

    def files_for_postgres(self) -> list[tuple[int, str]]:
        """Return (schema number, SQL) in order for PostgreSQL; raises `ValueError` as `files`."""
        return [] if self.postgres is None else self._read(self.postgres)

    def _read(self, folder: Traversable | Path) -> list[tuple[int, str]]:
        names = sorted(f.name for f in folder.iterdir() if f.name.endswith(".sql"))
        numbers = [int(name.split("_", 1)[0]) for name in names]
        if numbers != list(range(1, len(names) + 1)):
            raise ValueError(f"migrations of {self.name!r} must count from 0001: {names}")
        scripts = [(folder / name).read_text(encoding="utf-8") for name in names]
        return list(enumerate(scripts, self._first_number(scripts)))

    def _first_number(self, scripts: Sequence[str]) -> int:
        head = _HEAD.match(scripts[0]) if scripts else None
        if head is None:
            raise ValueError(f"the first file of {self.name!r} must begin with `-- schema NUMBER`")
        return int(head[1])


def _nothing() -> None:
    pass


def _nothing_after(_connection: Connection) -> None:
    pass


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ChangeKind(Generic[Item, Result]):
    """A kind of change; all waiting items of one kind are passed on together.

    `run` works inside the open transaction, in the connection's thread, and answers item by item
    with a result or an exception; an item answered with an exception must have written nothing.
    `after` runs in that thread once the transaction is committed, before any caller is answered,
    and must not raise. `committed` is called in the event loop after the commit, before any caller
    is answered; `undone` in the connection's thread after a rollback.
    """

    run: Callable[[Any, Sequence[Item]], Sequence[Result | Exception]]
    after: Callable[[Connection], None] = _nothing_after
    committed: Callable[[], None] = _nothing
    undone: Callable[[], None] = _nothing


class Database(Protocol):
    """The database of an installation, shared by the queue and the bot.

    All methods may be called concurrently and cancelled. Errors: `StoreError` when the database
    fails, including `DiskFull` and `Damaged`.
    """

    @property
    def id(self) -> UUID:
        """Created once for each database."""

    @property
    def run(self) -> str:
        """Names this opening of the database; no other one ever has that name."""

    @property
    def alone(self) -> bool:
        """Whether no other process can write it while it is open."""

    @property
    def numbers_used(self) -> int:
        """Up to which number jobs may have been that the database does not know any more."""

    async def fenced(self) -> None:
        """Wait until the database refuses what is written here; never returns. Raises `Fenced`."""

    async def runs(self) -> frozenset[str]:
        """Return the openings, of all processes, that have not ended."""

    @property
    def damage(self) -> str | None:
        """What to do about damage found since the database was opened, None without any."""

    def look_at_file(self) -> str | None:
        """Return `damage`, after a look at whether the database is still the one that was opened.

        May block for a moment; call it now and then.
        """

    def is_short_of_disk(self) -> bool:
        """Return whether the remaining disk space is reserved for jobs accepted before."""

    async def write(self, change: Callable[[Connection], T]) -> T:
        """Run a change in the writer's next transaction; return once it is durable.

        The change must not block on anything but its connection, which it gets in another thread.
        When it raises, it alone is undone and the caller gets the exception. It may run a second
        time if the transaction around it fails.
        """

    async def write_and_scrub(self, change: Callable[[Connection], T]) -> T:
        """Run a change as `write` does; deleted data is overwritten as far as the engine can."""

    def time_commits(self, timed: Callable[[float], None]) -> None:
        """Call a function with the seconds that each of the writer's transactions takes."""

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run a query that sees everything written before and cannot write."""

    async def used_mb(self) -> int:
        """Return how much of the database is in use, in MB, rounded up."""

    def submit(self, kind: ChangeKind[Item, Result], item: Item) -> asyncio.Future[Result]:
        """Apply a change of a known kind with the writer's next transaction."""

    async def aclose(self) -> None:
        """Finish waiting work and close. Idempotent."""
