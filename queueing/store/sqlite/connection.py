"""A connection to SQLite that can read a part of a blob, so that large files need not be in memory."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from queueing.store.sql.database import Changes, EngineStatements, Value

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
