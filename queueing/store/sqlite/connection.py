"""A connection to SQLite: blobs in pieces, transactions, readable errors, and the schema.

Only `Worker` has access to a connection, so no caller can leave a transaction open.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import aiosqlite

from queueing.core.errors import StoreError
from queueing.store.sql.batcher import Batch, Batcher, Outcomes, unwatched
from queueing.store.sql.database import (
    DISK_FULL,
    Changes,
    Damaged,
    DiskFull,
    EngineStatements,
    Value,
)
from queueing.store.sql.migrations import (
    QUEUE,
    MigrationSet,
    bring_forward,
    identify,
    present_number,
)

log = logging.getLogger(__name__)

_LARGE = 64 * 1024  # bytes
_OPEN = (
    "FROM jobs INDEXED BY jobs_open WHERE finished_at IS NULL"  # otherwise it reads all ended jobs
)
STATEMENTS = EngineStatements(
    last_id="SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'jobs'), 0)",
    overflow=(
        f"SELECT id, model, lane, owner, bulk {_OPEN} AND seq IS NULL AND state = 'pending'"
        " ORDER BY id"
    ),
    open_after=f"SELECT id {_OPEN} AND id > ? ORDER BY id LIMIT ?",
    places=(
        "SELECT json_group_array(id), json_group_array(seq) FROM (SELECT id, seq FROM jobs"
        " WHERE state = 'pending' AND model = ? AND lane = ? AND seq > ? ORDER BY seq LIMIT ?)"
    ),
    columns=(
        "SELECT tables.name, columns.name, columns.pk > 0 FROM sqlite_schema AS tables"
        " JOIN pragma_table_info(tables.name) AS columns"
        " WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite_%'"
        " ORDER BY tables.name, columns.cid"
    ),
    note_last_id=(
        "DELETE FROM sqlite_sequence WHERE name = 'jobs' AND seq < ?",
        "INSERT INTO sqlite_sequence (name, seq) VALUES ('jobs', ?)",
    ),
    settle_numbers="SELECT 1",  # SQLite advances it with the rows
    turn="SELECT ?",  # only one transaction writes at a time
)


class SqliteConnection(sqlite3.Connection):
    """`Connection` on SQLite. Statements use the methods of `sqlite3` directly, for speed."""

    @property
    def statements(self) -> EngineStatements:
        """The statements in SQLite's dialect."""
        return STATEMENTS

    def insert_files(self, sql: str, rows: Sequence[Sequence[Value]], /) -> None:
        """Insert rows whose last value, `data`, may be large, without keeping it in memory.

        Python keeps each statement prepared, and SQLite keeps the values of its last run and two
        copies of them. A large value is therefore written into a row that was inserted with its
        length only.
        """
        table = sql.split()[2]  # INSERT INTO … (…)
        first, value, rest = sql.rpartition("?)")
        empty = f"{first}zeroblob({value}){rest} RETURNING rowid"
        for *others, data in rows:
            if not isinstance(data, bytes) or len(data) <= _LARGE:
                self.execute(sql, (*others, data))
                continue
            ((row,),) = self.execute(empty, (*others, len(data))).fetchall()
            with self.blobopen(table, "data", row) as blob:
                blob.write(data)

    def selectmany(
        self, sql: str, parameters: Iterable[Sequence[Value]], /
    ) -> Sequence[Sequence[Any]]:
        """Run a query once per parameter set. Returns the rows of each run."""
        return [self.execute(sql, each).fetchall() for each in parameters]

    def changemany(self, groups: Sequence[Changes], /) -> Sequence[Sequence[bool]]:
        """Run groups of changes one after the other. Returns which runs changed a row."""
        return [[self.execute(sql, row).rowcount == 1 for row in rows] for sql, _, rows in groups]

    def piece(self, table: str, key: Mapping[str, Value], start: int, length: int) -> bytes | None:
        """Return bytes of the column `data` of a row, or None if the row does not exist."""
        where = " AND ".join(f"{column} = ?" for column in key)
        row = self.execute(
            f"SELECT rowid FROM {table} WHERE {where}",  # noqa: S608  # table and column names are constants
            tuple(key.values()),
        ).fetchone()
        if row is None:
            return None
        with self.blobopen(table, "data", row[0], readonly=True) as blob:
            blob.seek(min(start, len(blob)))
            return blob.read(length)

    def is_spoilt_by(self, error: Exception) -> bool:
        """Return whether SQLite failed, or has rolled back the transaction by itself."""
        return not self.in_transaction or isinstance(explain(error), StoreError)

    def scrub(self) -> None:
        """Checkpoint and truncate the write-ahead log, which contains older versions of pages.

        Deleted bytes in the file itself are always overwritten. While another process reads the
        whole database, such as for a backup, the log remains until the next call or an orderly
        stop.
        """
        try:
            busy = self.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.Error as error:
            log.warning("the write-ahead log could not be truncated: %s", error)
        else:
            if busy:
                log.warning("the write-ahead log is in use: deleted data stays in it for a while")


_TEXTS = {
    sqlite3.SQLITE_READONLY: "the database is read-only: give the file and its folder to the user that runs Usher",
    sqlite3.SQLITE_CANTOPEN: "the database cannot be opened: its folder must exist and be writable",
    sqlite3.SQLITE_PERM: "the database cannot be opened: give the file and its folder to the user that runs Usher",
    sqlite3.SQLITE_BUSY: "another program has locked the database: close it and try again",
    sqlite3.SQLITE_LOCKED: "another program has locked the database: close it and try again",
    sqlite3.SQLITE_CORRUPT: "the database is damaged: stop Usher and restore the newest backup with `usher restore`",
    sqlite3.SQLITE_NOTADB: "the file is not a database: name another file, or restore the newest backup with `usher restore`",
    sqlite3.SQLITE_IOERR: "the disk failed: check the system's log, then restore the newest backup if needed",
}
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def explain(error: Exception) -> Exception:
    """Return a `StoreError` for an error of SQLite, and any other error unchanged."""
    if not isinstance(error, sqlite3.Error):
        return error
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return error
    primary = code & 0xFF  # the upper bits are details
    if primary == sqlite3.SQLITE_FULL:
        explained: StoreError = DiskFull(DISK_FULL)
    elif primary in _TEXTS:
        kind = Damaged if primary in _DAMAGE else StoreError
        explained = kind(f"{_TEXTS[primary]} ({error})")
    else:
        return error
    explained.__cause__ = error
    return explained


def migrate(connection: SqliteConnection, sets: Sequence[MigrationSet]) -> UUID:
    """Apply missing migrations inside the caller's transaction. Returns the database's id.

    Raises `StoreError` for a schema that this version does not know, and `sqlite3.Error` if the
    file cannot be used.
    """

    def run(script: str) -> None:
        for statement in _statements(script):
            connection.execute(statement)

    connection.execute(
        "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT"
    )
    for migrations in sets:
        bring_forward(connection, migrations.name, migrations.files(), run)
    return identify(connection)


def refuse_older(connection: SqliteConnection) -> None:
    """Raise `StoreError` for a database older than the first migration. Other files may be read."""
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'meta'").fetchone():
        present_number(connection, QUEUE.name, QUEUE.files())


def _statements(script: str) -> Iterator[str]:
    """Split a script into statements. `executescript` would commit the open transaction first."""
    statement = ""
    for piece in script.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):  # not inside a string, comment or trigger
            yield statement
            statement = ""


class Worker(Batcher):
    """One connection with its thread and the task that feeds it. Create it with `open`."""

    def __init__(self, begin: str, failed: Callable[[Exception], None], *, inline: bool) -> None:
        super().__init__(failed, inline=inline)
        self._begin = begin
        self._using: SqliteConnection  # set while a batch runs
        self._plain: SqliteConnection | None = None
        self._threaded: aiosqlite.Connection | None = None
        self._begun = False

    @classmethod
    async def open(
        cls,
        path: Path | str,
        *,
        begin: str,
        pragmas: Iterable[str],
        inline: bool,
        failed: Callable[[Exception], None] = unwatched,
    ) -> Self:
        """Connect to a file. `failed` is called with every failure. Raises `sqlite3.Error`."""
        self = cls(begin, failed, inline=inline)
        if inline:
            self._plain = _prepared(
                sqlite3.connect(path, isolation_level=None, factory=SqliteConnection), pragmas
            )
            return self
        connection = await aiosqlite.connect(
            path, isolation_level=None, factory=_committing_by(self._run_taken)
        )
        try:
            for pragma in pragmas:
                await connection.execute_fetchall(pragma)
        except BaseException:
            await connection.close()
            raise
        self._threaded = connection
        self._start()
        return self

    def _run_inline(self) -> None:
        if self._plain is not None:
            self._run_taken(self._plain)

    async def _run(self) -> None:
        if self._threaded is None:
            return
        try:
            await self._threaded.commit()  # runs the batch, see `_committing_by`
        except asyncio.CancelledError:
            await self._close()  # in the same thread, so after the batch
            raise

    async def _close(self) -> None:
        if self._plain is not None:
            self._plain.close()
        if self._threaded is not None:
            await self._threaded.close()

    def _run_taken(self, connection: SqliteConnection) -> None:
        self._using = connection
        self._outcomes = self._apply(self._batch)

    def _transaction(self, batch: Batch) -> Outcomes:
        connection = self._using
        self._begun = False
        connection.execute(self._begin)
        self._begun = True
        try:
            outcomes = {kind: kind.run(connection, items) for kind, items in batch.items()}
            connection.execute("COMMIT")
        except Exception:
            if connection.in_transaction:  # SQLite itself rolls back on a full disk
                connection.execute("ROLLBACK")
            for kind in batch:
                kind.undone()
            raise
        for kind in batch:
            kind.after(connection)
        return outcomes

    def _explained(self, error: Exception) -> Exception:
        return explain(error)

    def _concerns_all(self, explained: Exception) -> bool:  # noqa: ARG002 - whatever it was
        return not self._begun  # another program has locked the file


def _prepared(connection: SqliteConnection, pragmas: Iterable[str]) -> SqliteConnection:
    try:
        for pragma in pragmas:
            connection.execute(pragma)
    except BaseException:
        connection.close()
        raise
    return connection


def _committing_by(run: Callable[[SqliteConnection], None]) -> type[SqliteConnection]:
    """Return a connection class whose `commit()` calls `run`.

    `commit()` is the only public method that can run a whole function in the thread of an aiosqlite
    connection. A batch then costs a single switch between threads.
    """

    class Committing(SqliteConnection):
        def commit(self) -> None:
            run(self)

    return Committing
