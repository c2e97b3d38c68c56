"""Operator's tools for a SQLite file: backups, checks, and a single transaction.

Backups and checks are additional readers that can run while the bot does. They never change the
database.
"""

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from queueing.core.errors import StoreError
from queueing.store.sql.database import Connection
from queueing.store.sql.migrations import QUEUE, MigrationSet
from queueing.store.sqlite.connection import SqliteConnection, explain, migrate, refuse_older
from queueing.store.sqlite.database import WRITER_PRAGMAS
from queueing.store.sqlite.file_lock import own

_READER = (
    "PRAGMA query_only = ON",
    "PRAGMA wal_autocheckpoint = 0",  # two checkpointing connections can corrupt SQLite < 3.51.3
)


def backup(database: Path, target: Path) -> None:
    """Write a consistent copy of the database. Replaces `target` only once the copy is complete.

    The copy has the database's access rights. Raises `StoreError`.
    """
    if target.exists() and target.samefile(database):
        raise StoreError(f"{target} is the database itself: name another file")
    if not target.absolute().parent.is_dir():
        raise StoreError(f"the folder of {target} does not exist: create it, or name another")
    partial = target.with_name(target.name + ".partial")
    try:
        with reading(database) as source:
            partial.unlink(missing_ok=True)
            partial.touch(mode=0o600)  # only its owner may read it while it is written
            with closing(sqlite3.connect(partial)) as copy:
                source.backup(copy)
        shutil.copymode(database, partial)
        partial.replace(target)
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


def rehearse_migration(database: Path, migrations: Sequence[MigrationSet]) -> None:
    """Apply the migrations as the bot does at its start, then roll them back.

    Raises `StoreError`, which says what to do, if the file cannot be used.
    """
    try:
        with closing(
            sqlite3.connect(database, isolation_level=None, factory=SqliteConnection)
        ) as connection:
            connection.execute("BEGIN IMMEDIATE")
            migrate(connection, (QUEUE, *migrations))
            connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise explain(error) from error


@contextmanager
def one_transaction(database: Path, migrations: Sequence[MigrationSet]) -> Iterator[Connection]:
    """Own and migrate the database, and provide a connection, all in one transaction.

    Raises `StoreError`, which says what to do, if the file cannot be used.
    """
    with closing(own(database)):
        try:
            with closing(
                sqlite3.connect(database, isolation_level=None, factory=SqliteConnection)
            ) as connection:
                for pragma in WRITER_PRAGMAS:
                    connection.execute(pragma)
                connection.execute("BEGIN IMMEDIATE")
                with naming(database):
                    migrate(connection, (QUEUE, *migrations))
                yield connection
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise explain(error) from error


def damage(database: Path) -> list[str]:
    """Read the whole database and return the damage found, empty if none. Raises `StoreError`."""
    with reading(database) as connection:
        rows = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
        orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
    return [row for row in rows if row != "ok"] + [f"orphaned: {row}" for row in orphans]


@contextmanager
def reading(path: Path) -> Iterator[SqliteConnection]:
    """Open an existing database as a reader. Raises `StoreError` if it is too old."""
    if not path.is_file():
        raise StoreError(f"{path}: there is no such file")
    # Not mode=ro: after a crash, the write-ahead log must be recovered before reading.
    address = f"{path.absolute().as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(address, uri=True, factory=SqliteConnection)) as connection:
            for pragma in _READER:
                connection.execute(pragma)
            with naming(path):
                refuse_older(connection)
            yield connection
    except sqlite3.Error as error:
        explained = explain(error)
        raise (
            explained if isinstance(explained, StoreError) else StoreError(str(error))
        ) from error


@contextmanager
def naming(database: Path) -> Iterator[None]:
    """Add the file's name to errors, since a copy involves two databases."""
    try:
        yield
    except StoreError as error:
        raise StoreError(f"{database}: {error}") from error
