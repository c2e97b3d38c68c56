"""SqliteDatabase: the one SQLite file of an installation, shared by the queue and the bot.

Owns opening and closing; knows no tables but `meta`.
"""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from shutil import disk_usage
from typing import Any
from uuid import UUID, uuid4

from queueing.core.concurrency import undisturbed
from queueing.core.errors import StoreError
from queueing.store.sql.database import (
    ChangeKind,
    Connection,
    Damaged,
    Item,
    MigrationSet,
    Result,
    T,
)
from queueing.store.sql.migrations import QUEUE
from queueing.store.sqlite.connection import SqliteConnection, Worker, explain, migrate
from queueing.store.sqlite.file_lock import FileLock, own

_RESERVE = 64 * 1024 * 1024  # bytes: some dozens of images
_SHARE = 16  # at most a sixteenth of a small disk is reserved


def is_short(file: Path) -> bool:
    """Return whether so little space is left that it is reserved for jobs accepted before.

    Every change needs some: on a disk filled by acceptances, no job could be cancelled and nothing
    could be deleted. The contents of the log beside the file go into it later and may make it as
    much larger.
    """
    log = file.with_name(file.name + "-wal")
    try:
        disk = disk_usage(file.parent)
        coming = log.stat().st_size if log.exists() else 0
    except OSError:
        return False  # unknown; the change itself may still fail
    return disk.free < coming + min(_RESERVE, disk.total // _SHARE)


log = logging.getLogger(__name__)

OLDEST_SQLITE = (3, 37)  # STRICT tables
WRITER_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # NORMAL lost acknowledged jobs in half of the simulated power cuts
    "PRAGMA temp_store = MEMORY",
    "PRAGMA foreign_keys = ON",
    "PRAGMA secure_delete = ON",  # deleted data is overwritten: people may ask to be forgotten
    "PRAGMA cache_size = -24576",  # kept for good once large files were written; more is no faster
    "PRAGMA wal_autocheckpoint = 4000",  # 16 MB: else each large result would wait for one
    "PRAGMA journal_size_limit = 67108864",
)
_READER = (
    "PRAGMA query_only = ON",
    "PRAGMA wal_autocheckpoint = 0",  # two checkpointing connections can corrupt SQLite < 3.51.3
    "PRAGMA temp_store = MEMORY",
)
_LOOK_S = 1.0
_STEPS = 10_000  # of SQLite's virtual machine, between two looks at the clock
_SMALL_TABLES = (  # those without files, the table of jobs last: it is the first and the longest
    "SELECT made.name FROM sqlite_schema AS made"
    " WHERE made.type = 'table' AND made.name NOT LIKE 'sqlite_%' AND NOT EXISTS"
    " (SELECT 1 FROM pragma_table_info(made.name) AS columns WHERE columns.name = 'data')"
    " ORDER BY made.rowid DESC"
)


def _guarded(
    connection: SqliteConnection, changes: Sequence[Callable[[SqliteConnection], Any]]
) -> list[Any]:
    return [_in_savepoint(connection, change) for change in changes]


def _in_savepoint(connection: SqliteConnection, change: Callable[[SqliteConnection], Any]) -> Any:
    connection.execute("SAVEPOINT change")
    try:
        result = change(connection)
    except Exception as error:
        if not connection.in_transaction or isinstance(explain(error), StoreError):
            raise  # the engine failed, not the change: the whole batch starts again
        connection.execute("ROLLBACK TO change")
        result = error
    connection.execute("RELEASE change")
    return result


def _each(
    connection: SqliteConnection, queries: Sequence[Callable[[SqliteConnection], Any]]
) -> list[Any]:
    results = []
    for query in queries:
        try:
            results.append(query(connection))
        except Exception as error:  # noqa: BLE001 - it goes to the one who asked
            results.append(explain(error))
    return results


def _empty_log(connection: Connection) -> None:
    """Write the log's pages into the file and truncate it: it contains older versions of pages."""
    try:
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    except sqlite3.Error as error:
        log.warning("the database's log could not be emptied: %s", error)
    else:
        if busy:
            log.warning("the database's log is in use, deleted bytes stay in it for a while")


class _Damage:
    """Remembers the first damage that any connection found, and reports it to the operator once."""

    def __init__(self) -> None:
        self.met: str | None = None

    def look(self, failure: Exception) -> None:
        if self.met is None and isinstance(failure, Damaged):
            self.note(str(failure))

    def note(self, what: str) -> None:
        """Remember it, unless there is an earlier one."""
        if self.met is None:
            self.met = what
            log.error("%s; until then nothing new is accepted", what)


_CHANGES: ChangeKind[Callable[[SqliteConnection], Any], Any] = ChangeKind(run=_guarded)
_LAST_CHANGES: ChangeKind[Callable[[SqliteConnection], Any], Any] = ChangeKind(
    run=_guarded, after=_empty_log
)
_QUERIES: ChangeKind[Callable[[SqliteConnection], Any], Any] = ChangeKind(run=_each)


class SqliteDatabase:
    """`Database` on a file that is open and owned by this process; get one from `open_sqlite`.

    `path` is None in memory. All methods may be called concurrently and cancelled.
    """

    def __init__(
        self,
        *,
        database_id: UUID,
        path: Path | None,
        writer: Worker,
        reader: Worker,
        ownership: FileLock | None,
        damage: _Damage,
    ) -> None:
        self.id = database_id
        self.run = uuid4().hex
        self.alone = True
        self.path = path
        self._file = (
            None if path is None else path.resolve()
        )  # the log stands beside the file itself
        self._writer = writer
        self._reader = reader
        self._ownership = ownership
        self._damage = damage

    @property
    def damage(self) -> str | None:
        """What to do about damage found in the file since it was opened, None without any.

        Data written into a damaged file is lost when the operator restores a backup.
        """
        return self._damage.met

    def look_at_file(self) -> str | None:
        """Return `damage`, after a look at whether the file is still the one that was opened.

        May block for a moment; call it now and then.
        """
        lost = self._ownership.lost() if self._ownership is not None else None
        if lost is not None:
            self._damage.note(f"{self.path}: {lost}")
        return self.damage

    def is_short_of_disk(self) -> bool:
        """Return whether the remaining disk space is reserved for jobs accepted before."""
        return self._file is not None and is_short(self._file)

    async def write(self, change: Callable[[SqliteConnection], T]) -> T:
        """Run a change in the writer's next transaction; return once it is durable.

        The change must neither commit nor block on anything but its connection, which it gets in
        another thread. When it raises, it alone is undone and the caller gets the exception. It
        may run a second time if the transaction around it fails. Raises `StoreError`.
        """
        result: T = await self._writer.submit(_CHANGES, change)
        return result

    async def write_and_scrub(self, change: Callable[[SqliteConnection], T]) -> T:
        """Run a change as `write` does; what it deleted is then in neither file any more.

        Deleted bytes are always overwritten in the database; the log beside it keeps older versions
        of pages until it is emptied, which this does. If another process is reading the whole
        database just then (a backup), that happens with the next such call or an orderly stop.
        """
        result: T = await self._writer.submit(_LAST_CHANGES, change)
        return result

    async def used_mb(self) -> int:
        """Return how much of the file is in use, in MB, rounded up. Raises `StoreError`."""
        size = (
            "SELECT (page_count - freelist_count) * page_size"
            " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
        )
        (used,) = await self.read(lambda connection: connection.execute(size).fetchone())
        return -(-int(used) // (1024 * 1024))

    @property
    def numbers_used(self) -> int:
        """Return 0: the file knows every number it gave out."""
        return 0

    async def fenced(self) -> None:
        """Wait until cancelled: no other process can take the file over."""
        await asyncio.get_running_loop().create_future()

    async def runs(self) -> frozenset[str]:
        """Return this opening alone: a file has one owner."""
        return frozenset({self.run})

    def time_commits(self, timed: Callable[[float], None]) -> None:
        """Call a function with the seconds that each of the writer's transactions takes."""
        self._writer.timed = timed

    async def read(self, query: Callable[[SqliteConnection], T]) -> T:
        """Run a query on a connection that cannot write; sees everything written before.

        In memory there is only the writer's connection, and the query waits its turn there.

        Raises `StoreError` when the database fails, otherwise what the query raises.
        """
        result: T = await self._reader.submit(_QUERIES, query)
        return result

    def submit(self, kind: ChangeKind[Item, Result], item: Item) -> asyncio.Future[Result]:
        """Apply a change of a known kind with the writer's next transaction."""
        return self._writer.submit(kind, item)

    async def aclose(self) -> None:
        """Finish waiting work, close, and release the file. Idempotent.

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
        if self._ownership is not None:
            self._ownership.close()
            self._ownership = None


async def open_sqlite(
    url: str,
    *,
    migrations: Sequence[MigrationSet] = (),
    inline: bool = False,
    most_mb: int | None = None,
) -> SqliteDatabase:
    """Open or create the database and migrate it to this version's schema.

    `sqlite:///relative/path`, `sqlite:////absolute/path`, or `sqlite://` for one in memory.
    `migrations` are further sets beside the queue's own. `inline` does everything in the calling
    thread. Beyond `most_mb` the file does not grow: it then counts as a full disk, until something
    is deleted. Raises `StoreError` with what to do when the file cannot be used.
    """
    path = path_of(url)
    _require_strict_tables()
    try:
        async with AsyncExitStack() as opened:
            database = await _opened(path, (QUEUE, *migrations), opened, inline=inline)
            if most_mb is not None:
                await database.write(partial(_limit, most_mb=most_mb))
            opened.pop_all()
            return database
    except (sqlite3.Error, StoreError) as error:
        raise StoreError(f"{path or url}: {explain(error)}") from error


def _require_strict_tables() -> None:
    """Refuse a SQLite that takes Usher's tables for a damaged file."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise StoreError(
            f"this Python has SQLite {sqlite3.sqlite_version}, and Usher needs {oldest} or newer:"
            " use another Python, such as one that uv installs"
        )


async def _opened(
    path: Path | None, sets: Sequence[MigrationSet], opened: AsyncExitStack, *, inline: bool
) -> SqliteDatabase:
    """Open a database; if something fails, `opened` closes what has been opened."""
    ownership, damage = None, _Damage()
    if path is not None:
        ownership = own(path)
        opened.callback(ownership.close)
    writer = await Worker.open(
        path or ":memory:",
        begin="BEGIN IMMEDIATE",
        pragmas=WRITER_PRAGMAS,
        inline=inline,
        failed=damage.look,
    )
    opened.push_async_callback(writer.aclose)
    if path is not None:
        await writer.submit(_CHANGES, _refuse_damage)
    database_id = await writer.submit(_CHANGES, lambda connection: migrate(connection, sets))
    reader = writer
    if path is not None:
        reader = await Worker.open(
            path, begin="BEGIN", pragmas=_READER, inline=inline, failed=damage.look
        )
    return SqliteDatabase(
        database_id=database_id,
        path=path,
        writer=writer,
        reader=reader,
        ownership=ownership,
        damage=damage,
    )


def _limit(connection: SqliteConnection, most_mb: int) -> None:
    (page,) = connection.execute("PRAGMA page_size").fetchone()
    connection.execute(f"PRAGMA max_page_count = {most_mb * 1024 * 1024 // page}").fetchone()


def path_of(url: str) -> Path | None:
    """Return the file an address names, None for a database in memory. Raises `StoreError`."""
    if url in {"sqlite://", "sqlite:///:memory:"}:
        return None
    if not url.startswith("sqlite:///"):
        raise StoreError(
            f"{url.partition('://')[0]}://… is no database this version knows; use"  # a password
            " sqlite:///path/to/file.db or postgresql://user:password@host/database"
        )
    return Path(url.removeprefix("sqlite:///"))


def _refuse_damage(connection: SqliteConnection) -> None:
    """Check every table and its indexes except those of files, which could take minutes to read.

    The check is short even with a million rows.
    """
    until = time.monotonic() + _LOOK_S
    connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        for (table,) in connection.execute(_SMALL_TABLES).fetchall():
            (found,) = connection.execute(f"PRAGMA quick_check('{table}')").fetchone()
            if found != "ok":
                raise Damaged(f"the database is damaged: restore the newest backup ({found})")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_INTERRUPT:
            raise
        log.info("the database is large, so it was checked in part: `usher db check` checks all")
    finally:
        connection.set_progress_handler(None, 0)
