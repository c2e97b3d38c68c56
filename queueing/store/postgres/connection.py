"""A connection to PostgreSQL for the shared dialect: placeholders, types, and bulk changes.

Many changes of one form become a single statement, with their values as arrays. Sent one by one,
each would cost the session and the server several times as much as its row.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

import psycopg
from psycopg.types.numeric import FloatBinaryDumper, Int8BinaryDumper

from queueing.store.sql.database import Changes, EngineStatements, Value

STATEMENTS = EngineStatements(
    last_id=(
        "SELECT greatest((SELECT highest FROM deleted_jobs),"
        " coalesce((SELECT max(id) FROM jobs), 0))"
    ),
    overflow=(
        "SELECT id, model, lane, owner, bulk FROM jobs WHERE finished_at IS NULL AND seq IS NULL"
        " AND state = 'pending' ORDER BY id"
    ),
    open_after="SELECT id FROM jobs WHERE finished_at IS NULL AND id > ? ORDER BY id LIMIT ?",
    places=(
        "SELECT coalesce(json_agg(id), '[]')::text, coalesce(json_agg(seq), '[]')::text"
        " FROM (SELECT id, seq FROM jobs WHERE state = 'pending' AND model = ? AND lane = ?"
        " AND seq > ? ORDER BY seq LIMIT ?) AS places"
    ),
    columns=(
        "SELECT tables.relname::text, columns.attname::text, EXISTS (SELECT 1 FROM pg_index"
        " WHERE indrelid = tables.oid AND indisprimary AND columns.attnum = ANY (indkey))"
        " FROM pg_class AS tables JOIN pg_attribute AS columns ON columns.attrelid = tables.oid"
        " WHERE tables.relnamespace = to_regnamespace(current_schema()) AND tables.relkind = 'r'"
        " AND tables.relname NOT IN ('deleted_jobs', 'roles', 'lease_secrets')"
        " AND columns.attnum > 0 AND NOT columns.attisdropped"
        " ORDER BY tables.relname, columns.attnum"
    ),
    note_last_id=("UPDATE deleted_jobs SET highest = ?",),
    settle_numbers="""
DO $$
DECLARE
    numbered record;
BEGIN
    FOR numbered IN SELECT table_name, column_name FROM information_schema.columns
        WHERE table_schema = current_schema() AND is_identity = 'YES'
    LOOP
        EXECUTE format(
            'SELECT setval(pg_get_serial_sequence(%L, %L), greatest(max(%I), 1), count(*) > 0) FROM %I',
            quote_ident(numbered.table_name), numbered.column_name, numbered.column_name,
            numbered.table_name
        );
    END LOOP;
END $$
""",
    turn=("SELECT pg_advisory_xact_lock(1431521365, hashtext(current_schema() || ' ' || ?::text))"),
)

# Where a question mark may not be a placeholder: strings, quoted names and comments.
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|\?", re.DOTALL)


@lru_cache(maxsize=1024)
def numbered(sql: str) -> str:
    """Return a statement with each `?` placeholder replaced by `$1`, `$2` and so on."""
    numbers = count(1)
    return replaced(sql, lambda: f"${next(numbers)}")


def replaced(sql: str, following: Callable[[], str]) -> str:
    """Return a statement with each `?` placeholder replaced by the next result of `following`."""
    return _QUOTED.sub(lambda found: following() if found.group() == "?" else found.group(), sql)


@lru_cache(maxsize=256)
def together(sql: str, kinds: tuple[str, ...]) -> str:
    """Return an UPDATE that applies a single-row UPDATE to many rows.

    It takes the arrays of `columns` as parameters and returns the numbers, from 1, of the runs that
    changed a row.
    """
    numbers = count(1)
    change, where, condition = replaced(sql, lambda: f"given.v{next(numbers)}").partition(" WHERE ")
    arrays = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(kinds, 1))
    names = ", ".join(f"v{number}" for number in range(1, len(kinds) + 1))
    values = f"unnest({arrays}) WITH ORDINALITY AS given ({names}, run)"
    return f"{change} FROM {values}{where}{condition} RETURNING given.run"


def columns(kinds: Sequence[str], rows: Sequence[Sequence[Value]]) -> list[str]:
    """Return the values of each column as a PostgreSQL array literal."""
    return [
        f"{{{','.join(map(_WRITTEN[kind], column))}}}"
        for kind, column in zip(kinds, zip(*rows, strict=True), strict=True)
    ]


def _number(value: Value) -> str:
    return "NULL" if value is None else str(int(value))


def _moment(value: Value) -> str:
    return "NULL" if value is None else repr(value)


def _text(value: Value) -> str:
    if value is None:
        return "NULL"
    escaped = str(value).replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'


_WRITTEN: Mapping[str, Callable[[Value], str]] = {
    "bigint": _number,
    "double precision": _moment,
    "text": _text,
}


Plain = psycopg.Connection[tuple[Any, ...]]


class _FlagDumper(Int8BinaryDumper):
    """Sends True and False as 1 and 0, because the columns are integers, as in SQLite."""

    def dump(self, obj: object) -> Any:
        return super().dump(int(bool(obj)))


def adapt(plain: Plain) -> None:
    """Send all numbers with the types of their columns, so that each statement is prepared once."""
    plain.adapters.register_dumper(int, Int8BinaryDumper)
    plain.adapters.register_dumper(float, FloatBinaryDumper)
    plain.adapters.register_dumper(bool, _FlagDumper)


class PostgresCursor:
    """The rows of a statement. Reading waits for all statements sent before."""

    __slots__ = ("_cursor", "_pipeline")

    def __init__(self, cursor: psycopg.Cursor[Any], pipeline: psycopg.Pipeline | None) -> None:
        self._cursor = cursor
        self._pipeline = pipeline

    @property
    def rowcount(self) -> int:
        """The number of rows that a change has affected."""
        self._arrive()
        return self._cursor.rowcount

    @property
    def status(self) -> str | None:
        """The command tag that the server returned, such as COMMIT."""
        self._arrive()
        return self._cursor.statusmessage

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        self._arrive()
        return None if self._cursor.description is None else self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        """Return the remaining rows. Empty for a statement that returns no rows."""
        self._arrive()
        return [] if self._cursor.description is None else self._cursor.fetchall()

    def __iter__(self) -> Iterator[Any]:
        """Yield the remaining rows."""
        return iter(self.fetchall())

    def _arrive(self) -> None:
        if self._cursor.pgresult is None and self._pipeline is not None:
            self._pipeline.sync()


class PostgresConnection:
    """`Connection` on PostgreSQL for one transaction.

    In a pipeline, statements are sent without waiting until something is read. Otherwise each one
    waits for its result.
    """

    def __init__(self, plain: Plain, pipeline: psycopg.Pipeline | None = None) -> None:
        self._plain = plain
        self._pipeline = pipeline

    @property
    def statements(self) -> EngineStatements:
        """The statements in PostgreSQL's dialect."""
        return STATEMENTS

    def execute(self, sql: str, parameters: Sequence[Value] = (), /) -> PostgresCursor:
        """Send a statement."""
        cursor = self._plain.cursor(binary=True)
        text = numbered(sql)
        try:
            cursor.execute(text, parameters)
        except psycopg.DataError as error:
            if error.sqlstate is not None or not any(map(_has_nul, parameters)):
                raise
            cursor.execute(text, [_without_nul(each) for each in parameters])
        return PostgresCursor(cursor, self._pipeline)

    def executemany(self, sql: str, parameters: Iterable[Sequence[Value]], /) -> PostgresCursor:
        """Send a statement that returns no rows once per parameter set."""
        rows = [
            [_without_nul(each) for each in row] if any(map(_has_nul, row)) else row
            for row in parameters
        ]
        cursor = self._plain.cursor()
        if rows:
            cursor.executemany(numbered(sql), rows)
        return PostgresCursor(cursor, self._pipeline)

    def insert_files(self, sql: str, rows: Sequence[Sequence[Value]], /) -> None:
        """Insert rows whose values may be large, without keeping any in memory."""
        self.executemany(sql, rows)

    def selectmany(
        self, sql: str, parameters: Iterable[Sequence[Value]], /
    ) -> Sequence[Sequence[Any]]:
        """Send a query once per parameter set. Returns the rows of each run."""
        sent = [self.execute(sql, each) for each in parameters]
        return [cursor.fetchall() for cursor in sent]

    def changemany(self, groups: Sequence[Changes], /) -> Sequence[Sequence[bool]]:
        """Run groups of changes, each as one statement. Returns which runs changed a row."""
        sent = [
            self.execute(together(sql, tuple(kinds)), columns(kinds, rows))
            for sql, kinds, rows in groups
        ]
        changed = [{number for (number,) in cursor.fetchall()} for cursor in sent]
        return [
            [number in numbers for number in range(1, len(group.rows) + 1)]
            for numbers, group in zip(changed, groups, strict=True)
        ]

    def piece(self, table: str, key: Mapping[str, Value], start: int, length: int) -> bytes | None:
        """Return bytes of the column `data` of a row, or None if the row does not exist.

        The server reads only the requested part, because such columns are stored uncompressed.
        """
        where = " AND ".join(f"{column} = ?" for column in key)
        row = self.execute(
            f"SELECT substr(data, ?::int, ?::int) FROM {table} WHERE {where}",  # noqa: S608  # table and column names are constants
            (start + 1, length, *key.values()),
        ).fetchone()
        return None if row is None else row[0]

    def is_spoilt_by(self, error: Exception) -> bool:
        """Return whether PostgreSQL failed: the transaction accepts no further statements then."""
        return isinstance(error, psycopg.Error)

    def scrub(self) -> None:
        """Do nothing: the server reuses the space of deleted rows when it vacuums.

        Its write-ahead log and replicas keep older versions for as long as the server is configured
        to.
        """


def _has_nul(value: Value) -> bool:
    return isinstance(value, str) and "\0" in value


def _without_nul(value: Value) -> Value:
    """Replace NUL, the one character that PostgreSQL cannot store in text."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
