"""Maintenance by an operator, for both engines: rehearsing the start, checks, copies, backups.

A restore replaces a file, so it exists for SQLite only.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from queueing.core.errors import StoreError
from queueing.core.leases import ServerLook
from queueing.store.engines import NOT_INSTALLED, is_postgres
from queueing.store.sql.database import Connection
from queueing.store.sql.migrations import MigrationSet
from queueing.store.sqlite import backup
from queueing.store.sqlite.database import path_of
from queueing.store.sqlite.file_lock import made_by

_FIRST = ("jobs", "web_messages")  # rows of other tables refer to these
_FILES = frozenset({"inputs", "outputs", "web_files"})
_ROWS, _FILES_AT_ONCE = 500, 4
_KEY_OF_FILES = ("job_id", "number")
_TAKE_META = (
    "INSERT INTO meta (key, value) VALUES (?, ?)"
    " ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Table:
    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    @property
    def listed(self) -> str:
        return ", ".join(f'"{column}"' for column in self.columns)

    def page(self) -> str:
        key = ", ".join(f'"{column}"' for column in self.key)
        values = ", ".join("?" * len(self.key))
        return (
            f'SELECT {self.listed} FROM "{self.name}" WHERE ({key}) > ({values})'  # noqa: S608  # the database's own names
            f" ORDER BY {key} LIMIT ?"
        )

    def first_page(self) -> str:
        key = ", ".join(f'"{column}"' for column in self.key)
        return f'SELECT {self.listed} FROM "{self.name}" ORDER BY {key} LIMIT ?'  # noqa: S608  # as above

    def insert(self) -> str:
        values = ", ".join("?" * len(self.columns))
        return f'INSERT INTO "{self.name}" ({self.listed}) VALUES ({values})'  # noqa: S608  # as above


def copy_all(source: Connection, target: Connection) -> Mapping[str, int]:
    """Copy all rows inside the callers' transactions. Returns the number of rows by table.

    Jobs keep their ids, and the database keeps its id, from which the keys of attempts on servers
    are derived. Raises `StoreError` if the target is not empty or the counts differ afterwards.
    """
    tables = _tables(source)
    filled = [table.name for table in tables if _count(target, table)]
    if filled:
        raise StoreError(
            f"the database to copy into is not empty ({', '.join(filled)}): name another one"
        )
    for table in tables:
        for rows in _pages(source, table):
            target.executemany(table.insert(), rows)
    _take_id(source, target)
    counts = {table.name: _count(source, table) for table in tables}
    arrived = {table.name: _count(target, table) for table in tables}
    if arrived != counts:
        raise StoreError(f"not all rows were copied ({arrived} of {counts}): nothing was changed")
    return counts


def _tables(connection: Connection) -> Sequence[_Table]:
    """Return all tables, referenced ones first."""
    columns: dict[str, list[str]] = {}
    keys: dict[str, list[str]] = {}
    for table, column, in_key in connection.execute(connection.statements.columns):
        columns.setdefault(table, []).append(column)
        if in_key:
            keys.setdefault(table, []).append(column)
    names = [*_FIRST, *sorted(columns.keys() - {*_FIRST, "meta"})]
    return [
        _Table(name=name, columns=tuple(columns[name]), key=tuple(keys.get(name, _KEY_OF_FILES)))
        for name in names
        if name in columns
    ]


def _pages(connection: Connection, table: _Table) -> Iterator[list[Any]]:
    most = _FILES_AT_ONCE if table.name in _FILES else _ROWS
    places = [table.columns.index(column) for column in table.key]
    rows = connection.execute(table.first_page(), (most,)).fetchall()
    while rows:
        yield rows
        after = [rows[-1][place] for place in places]
        rows = connection.execute(table.page(), (*after, most)).fetchall()


def _count(connection: Connection, table: _Table) -> int:
    count: int = connection.execute(f'SELECT count(*) FROM "{table.name}"').fetchone()[0]  # noqa: S608  # as above
    return count


def _take_id(source: Connection, target: Connection) -> None:
    """Copy the database id and the counters that generate ids."""
    (database_id,) = source.execute("SELECT value FROM meta WHERE key = 'database_id'").fetchone()
    target.execute(_TAKE_META, ("database_id", database_id))
    (last_id,) = source.execute(source.statements.last_id).fetchone()
    (there,) = target.execute(target.statements.last_id).fetchone()
    if last_id > there:
        for statement in target.statements.note_last_id:
            target.execute(statement, (last_id,))
    target.execute(target.statements.settle_numbers)


def examine_server(url: str, migrations: Sequence[MigrationSet]) -> str:
    """Rehearse the bot's start and roll it back. Returns a description of the server."""
    described: str = _server_tools().rehearse(url, migrations)
    return described


def look_at_server(url: str) -> ServerLook:
    """Return the held roles and open jobs. Changes nothing. Raises `StoreError`."""
    found: ServerLook = _server_tools().look_at(url)
    return found


def damage_of(url: str) -> list[str]:
    """Read the whole database and return the damage found, empty if none. Raises `StoreError`."""
    if is_postgres(url):
        found: list[str] = _server_tools().damage(url)
        return found
    return backup.damage(_file(url))


def back_up(url: str, target: Path) -> None:
    """Write a consistent copy of a SQLite file. Raises `StoreError`, including for PostgreSQL."""
    if is_postgres(url):
        raise StoreError(_server_tools().BACKUP_ADVICE)
    backup.backup(_file(url), target)


def restore(url: str, file: Path, migrations: Sequence[MigrationSet]) -> Path | None:
    """Replace a SQLite file with a backup. Returns where the old file is kept, if there was one.

    Raises `StoreError`, including for PostgreSQL.
    """
    if is_postgres(url):
        raise StoreError(_server_tools().RESTORE_ADVICE)
    return backup.restore(file, _file(url), migrations)


def copy_database(
    source: str, target: str, migrations: Sequence[MigrationSet]
) -> Mapping[str, int]:
    """Copy everything into an empty database in one transaction. Returns the row counts by table.

    No Usher may use either database. Both are migrated to this version's schema. Raises
    `StoreError`; the target is unchanged then.
    """
    if not is_postgres(source) and not _file(source).is_file():
        raise StoreError(f"{_file(source)}: there is no such file")
    is_new = not is_postgres(target) and not _file(target).exists()
    try:
        with _transaction(target, migrations) as there, _transaction(source, migrations) as here:
            return copy_all(here, there)
    except BaseException:
        if is_new:
            for name in made_by(_file(target)):
                name.unlink(missing_ok=True)
        raise


def _transaction(
    url: str, migrations: Sequence[MigrationSet]
) -> AbstractContextManager[Connection]:
    if is_postgres(url):
        opened: AbstractContextManager[Connection] = _server_tools().one_transaction(
            url, migrations
        )
        return opened
    return backup.one_transaction(_file(url), migrations)


def _file(url: str) -> Path:
    path = path_of(url)
    if path is None:
        raise StoreError("a database in memory is lost with its process: name a file")
    return path


def _server_tools() -> ModuleType:
    try:
        from queueing.store.postgres import checks as server  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise StoreError(NOT_INSTALLED) from error
    return server
