"""A connection to SQLite: parts of blobs, transactions, errors in words, and the schema.

`Worker` owns the only access to a connection, so no caller can leave a transaction open.
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
    "FROM jobs INDEXED BY jobs_open WHERE finished_at IS NULL"  # otherwise all that ended are read
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
    settle_numbers="SELECT 1",  # it follows the rows by itself
    turn="SELECT ?",  # one transaction writes at a time
)


class SqliteConnection(sqlite3.Connection):
    """`Connection` on SQLite: statements run through the engine's own methods, nothing in between."""

    @property
    def statements(self) -> EngineStatements:
        """The statements in SQLite's dialect."""
        return STATEMENTS

    def insert_files(self, sql: str, rows: Sequence[Sequence[Value]], /) -> None:
        """Insert rows whose last value, `data`, may be large; it does not stay in memory.

        Python keeps each statement prepared, and SQLite the values it was last run with and two
        copies of them: so a large one is written into a row that has only its length.
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
        """Run a statement that returns rows, once for each; return the rows of each."""
        return [self.execute(sql, each).fetchall() for each in parameters]

    def changemany(self, groups: Sequence[Changes], /) -> Sequence[Sequence[bool]]:
        """Run groups of changes, one group after the other; return which runs changed a row."""
        return [[self.execute(sql, row).rowcount == 1 for row in rows] for sql, _, rows in groups]

    def piece(self, table: str, key: Mapping[str, Value], start: int, length: int) -> bytes | None:
        """Return some bytes of the column `data` of a row, None if there is no such row."""
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
        """Return whether SQLite failed, or has undone the transaction by itself."""
        return not self.in_transaction or isinstance(explain(error), StoreError)

    def scrub(self) -> None:
        """Write the log's pages into the file and truncate it: it has older versions of pages.

        Deleted bytes are always overwritten in the file itself. While another process reads the
        whole database (a backup), the log stays for the next such call or an orderly stop.
        """
        try:
            busy = self.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.Error as error:
            log.warning("the database's log could not be emptied: %s", error)
        else:
            if busy:
                log.warning("the database's log is in use, deleted bytes stay in it for a while")


_TEXTS = {
    sqlite3.SQLITE_READONLY: "the database cannot be written: give the file and its folder to the user that runs Usher",
    sqlite3.SQLITE_CANTOPEN: "the database cannot be opened: its folder must exist and be writable",
    sqlite3.SQLITE_PERM: "the database cannot be opened: give the file and its folder to the user that runs Usher",
    sqlite3.SQLITE_BUSY: "another program holds the database: close it and try again",
    sqlite3.SQLITE_LOCKED: "another program holds the database: close it and try again",
    sqlite3.SQLITE_CORRUPT: "the database is damaged: stop Usher and restore the newest backup",
    sqlite3.SQLITE_NOTADB: "the file is no database: name another file, or restore the newest backup",
    sqlite3.SQLITE_IOERR: "the disk does not work: look at the system's log, then restore the newest backup if needed",
}
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def explain(error: Exception) -> Exception:
    """Return a `StoreError` for an error of the database engine, anything else unchanged."""
    if not isinstance(error, sqlite3.Error):
        return error
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return error
    primary = code & 0xFF  # the upper bits only refine it
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
    """Apply the missing migrations, inside the caller's transaction; return the database's id.

    Raises `StoreError` for a schema that this version does not know, `sqlite3.Error` when the file
    cannot be used.
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
    """Raise `StoreError` for a database from before the first migration; other files may be read."""
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'meta'").fetchone():
        present_number(connection, QUEUE.name, QUEUE.files())


def _statements(script: str) -> Iterator[str]:
    """Split a script; `executescript` would commit before it and break the transaction."""
    statement = ""
    for piece in script.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):  # not within a string, comment or trigger
            yield statement
            statement = ""


class Worker(Batcher):
    """One connection, its thread and the task that feeds it; create it with `open`."""

    def __init__(self, begin: str, failed: Callable[[Exception], None], *, inline: bool) -> None:
        super().__init__(failed, inline=inline)
        self._begin = begin
        self._using: SqliteConnection  # while a batch runs
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
        """Connect; `failed` is called with every failure. Raises `sqlite3.Error`."""
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
            await self._threaded.commit()  # runs the batch: see _committing_by
        except asyncio.CancelledError:
            await self._close()  # in the same thread, hence after the batch
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
            if connection.in_transaction:  # a full disk makes SQLite roll back by itself
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
        return not self._begun  # another program holds the file


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

    `commit()` is the one public way to run a whole function in the thread of an aiosqlite
    connection, and a batch then costs one hop between threads.
    """

    class Committing(SqliteConnection):
        def commit(self) -> None:
            run(self)

    return Committing
