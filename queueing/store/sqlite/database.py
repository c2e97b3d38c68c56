"""SqliteDatabase: the SQLite file of an installation, shared by the queue and the bot.

Opens and closes the file; knows no table except `meta`.
"""

import logging
import sqlite3
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from shutil import disk_usage
from uuid import UUID, uuid4

from queueing.core.errors import StoreError
from queueing.store.sql.database import CHANGES, Connection, Damage, Damaged, Database
from queueing.store.sql.migrations import QUEUE, MigrationSet
from queueing.store.sqlite.connection import SqliteConnection, Worker, explain, migrate
from queueing.store.sqlite.file_lock import FileLock, own

_RESERVE = 64 * 1024 * 1024  # bytes: a few dozen images
_SHARE = 16  # reserve at most a sixteenth of a small disk


def is_short(file: Path) -> bool:
    """Return whether the remaining disk space must be reserved for jobs that are already accepted.

    Every change needs some space. If new jobs filled the disk, no job could be cancelled and
    nothing could be deleted. The write-ahead log counts too: when it is written to the file, the
    file may grow by its size.
    """
    log = file.with_name(file.name + "-wal")
    try:
        disk = disk_usage(file.parent)
        coming = log.stat().st_size if log.exists() else 0
    except OSError:
        return False  # unknown; the change itself may still fail
    return disk.free < coming + min(_RESERVE, disk.total // _SHARE)


log = logging.getLogger(__name__)

OLDEST_SQLITE = (3, 37)  # for STRICT tables
WRITER_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # NORMAL lost acknowledged jobs in half of simulated power cuts
    "PRAGMA temp_store = MEMORY",
    "PRAGMA foreign_keys = ON",
    "PRAGMA secure_delete = ON",  # overwrite deleted data: people may ask for deletion
    "PRAGMA cache_size = -24576",  # 24 MB, never released after large writes; more is no faster
    "PRAGMA wal_autocheckpoint = 4000",  # 16 MB: otherwise each large result waits for one
    "PRAGMA journal_size_limit = 67108864",
)
_READER = (
    "PRAGMA query_only = ON",
    "PRAGMA wal_autocheckpoint = 0",  # two checkpointing connections can corrupt SQLite < 3.51.3
    "PRAGMA temp_store = MEMORY",
)
_LOOK_S = 1.0
_STEPS = 10_000  # SQLite VM steps between two checks of the clock
_SMALL_TABLES = (  # tables without files; jobs, the first and longest, comes last
    "SELECT made.name FROM sqlite_schema AS made"
    " WHERE made.type = 'table' AND made.name NOT LIKE 'sqlite_%' AND NOT EXISTS"
    " (SELECT 1 FROM pragma_table_info(made.name) AS columns WHERE columns.name = 'data')"
    " ORDER BY made.rowid DESC"
)


class SqliteDatabase(Database):
    """A database file that this process has open and owns. Created by `open_sqlite`.

    In memory, `path` is None and queries share the writer's connection.
    """

    size_query = (
        "SELECT (page_count - freelist_count) * page_size"
        " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
    )
    _writer: Worker

    def __init__(
        self,
        database_id: UUID,
        damage: Damage,
        *,
        path: Path | None,
        writer: Worker,
        reader: Worker,
        ownership: FileLock | None,
    ) -> None:
        super().__init__(database_id, uuid4().hex, damage, alone=True)
        self.path = path
        # SQLite's log is next to the real file, not next to a symlink.
        self._file = None if path is None else path.resolve()
        self._writer = writer
        self._reader = reader
        self._ownership = ownership

    def look_at_file(self) -> str | None:
        """Check whether the file is still the one that was opened, and return `damage`."""
        lost = self._ownership.lost() if self._ownership is not None else None
        if lost is not None:
            self._damage.note(f"{self.path}: {lost}")
        return self.damage

    def is_short_of_disk(self) -> bool:
        """Return whether the remaining disk space is reserved for jobs already accepted."""
        return self._file is not None and is_short(self._file)

    async def _close(self) -> None:
        await super()._close()
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

    The address is `sqlite:///relative/path`, `sqlite:////absolute/path`, or `sqlite://` for a
    database in memory. `migrations` are further sets in addition to the queue's. `inline` does all
    work in the calling thread. `most_mb` limits the size of the file: at the limit, writes fail as
    on a full disk until something is deleted. Raises `StoreError`, which says what to do, if the
    file cannot be used.
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
    """Raise `StoreError` for SQLite versions that report Usher's tables as damage."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise StoreError(
            f"this Python has SQLite {sqlite3.sqlite_version}, and Usher needs {oldest} or newer:"
            " use another Python, such as one that uv installs"
        )


async def _opened(
    path: Path | None, sets: Sequence[MigrationSet], opened: AsyncExitStack, *, inline: bool
) -> SqliteDatabase:
    """Open a database. If this fails, `opened` closes what was opened."""
    ownership, damage = None, Damage()
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
        await writer.submit(CHANGES, _refuse_damage)
    database_id = await writer.submit(CHANGES, lambda connection: migrate(connection, sets))
    reader = writer
    if path is not None:
        reader = await Worker.open(
            path, begin="BEGIN", pragmas=_READER, inline=inline, failed=damage.look
        )
    return SqliteDatabase(
        database_id, damage, path=path, writer=writer, reader=reader, ownership=ownership
    )


def _limit(connection: Connection, most_mb: int) -> None:
    (page,) = connection.execute("PRAGMA page_size").fetchone()
    connection.execute(f"PRAGMA max_page_count = {most_mb * 1024 * 1024 // page}").fetchone()


def path_of(url: str) -> Path | None:
    """Return the file of an address, or None for a database in memory. Raises `StoreError`."""
    if url in {"sqlite://", "sqlite:///:memory:"}:
        return None
    if not url.startswith("sqlite:///"):
        raise StoreError(
            f"{url.partition('://')[0]}://… is not a database"  # hides secrets
            " this version knows; use sqlite:///path/to/file.db or"
            " postgresql://user:password@host/database"
        )
    return Path(url.removeprefix("sqlite:///"))


def _refuse_damage(connection: SqliteConnection) -> None:
    """Check all tables and their indexes, except tables with files, which could take minutes.

    Fast even with a million rows, and stopped after `_LOOK_S`.
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
