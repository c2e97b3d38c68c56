"""Operator's tools for a SQLite file: backups, checks, and a restore.

Backups and checks are additional readers that can run while the bot does. They never change the
database. A restore replaces a database with a backup, whatever is left of the old one. SQLite
applies a `-wal` file to any database of that name, so the log of a killed process would undo or
damage a file that is copied over its database. The old files are therefore renamed together, and
the backup is put in place as a whole.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from queueing.core.errors import StoreError
from queueing.store.sql.database import Connection, Damaged
from queueing.store.sql.migrations import QUEUE, MigrationSet
from queueing.store.sqlite.connection import SqliteConnection, explain, migrate, refuse_older
from queueing.store.sqlite.database import WRITER_PRAGMAS
from queueing.store.sqlite.file_lock import is_owned, locked, made_by, own

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


IDS_LEFT_OUT = 1000
"""Ids that are skipped if the ids of the old database are unknown.

A server recognises an attempt by the job's id. If new jobs had ids of jobs that the backup does not
contain, they could receive the results of those.
"""


def restore(file: Path, database: Path, migrations: Sequence[MigrationSet]) -> Path | None:
    """Replace a database with a backup. Returns where the old one is kept; None if there was none.

    The old files are changed only once the backup has been copied and checked, and no Usher may use
    them. The backup is never written. Raises `StoreError`, which says what to do.
    """
    database = database.resolve()
    _require_backup(file, database)
    with _alone(database) as was_there:
        made = database.with_name(f"{database.name}.restoring")
        try:
            _copy(file, made)
            with naming(file):
                _prepare(made, migrations, _last_id(database) if was_there else None)
            kept = _set_aside(database, made) if was_there else None
            made.replace(database)
        except OSError as error:
            raise StoreError(f"{database} cannot be written: {error.strerror}") from error
        finally:
            for left in made_by(made):
                left.unlink(missing_ok=True)
    return kept


def _require_backup(file: Path, database: Path) -> None:
    if not file.is_file():
        raise StoreError(f"{file}: there is no such file")
    if file.resolve() == database or (database.exists() and file.samefile(database)):
        raise StoreError(f"{file} is the database itself: name a backup of it")
    if is_owned(file):
        raise StoreError(f"{file}: Usher is running on this file: name a backup of it")


@contextmanager
def _alone(database: Path) -> Iterator[bool]:
    """Lock the database against other processes inside the block. Yields whether it exists."""
    was_there = database.exists()
    own(database).close()
    if not was_there:
        database.unlink()
    with closing(locked(database)):
        yield was_there


def _copy(file: Path, made: Path) -> None:
    """Copy a backup, and its write-ahead log if it has one, for its owner only."""
    for end in ("", "-wal"):
        source, target = _beside(file, end), _beside(made, end)
        target.unlink(missing_ok=True)
        if source.exists():
            target.touch(mode=0o600)
            shutil.copyfile(source, target)


def _prepare(made: Path, migrations: Sequence[MigrationSet], last_id: int | None) -> None:
    """Check the copy, bring it to this version's schema, and keep earlier ids from new jobs."""
    try:
        with closing(
            sqlite3.connect(made, isolation_level=None, factory=SqliteConnection)
        ) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'meta'").fetchone():
                raise StoreError("it is not a database of Usher: name a file of `usher backup`")
            if (found := connection.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
                raise StoreError(f"it is damaged: restore another backup ({found})")
            for pragma in WRITER_PRAGMAS:
                connection.execute(pragma)
            connection.execute("BEGIN IMMEDIATE")
            migrate(connection, (QUEUE, *migrations))
            _skip_ids(connection, last_id)
            connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        found = explain(error)
        if isinstance(found, Damaged):  # its advice is for the database in use
            raise StoreError(_unusable(error)) from error
        raise found from error


def _unusable(error: sqlite3.Error) -> str:
    if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_NOTADB:
        return "it is not a database: name a file of `usher backup`, and unpack a packed one"
    return f"it is damaged: restore another backup ({error})"


def _skip_ids(connection: SqliteConnection, last_id: int | None) -> None:
    (here,) = connection.execute(connection.statements.last_id).fetchone()
    used = here + IDS_LEFT_OUT if last_id is None else max(here, last_id)
    if used > here:
        for statement in connection.statements.note_last_id:
            connection.execute(statement, (used,))


def _last_id(database: Path) -> int | None:
    """Return the last id of a job in the old database; None if it cannot be read."""
    try:
        with reading(database) as connection:
            (found,) = connection.execute(connection.statements.last_id).fetchone()
    except (StoreError, sqlite3.Error):
        return None
    return int(found)


def _set_aside(database: Path, made: Path) -> Path:
    """Rename the old files together, and give the new one their access rights."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(database)) as old:
        old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    _give(database, made)
    moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
    kept = database.with_name(f"{database.name}.replaced-{moment}")
    for end in ("-wal", ""):
        with suppress(FileNotFoundError):
            _beside(database, end).rename(_beside(kept, end))
    _beside(database, "-shm").unlink(missing_ok=True)
    return kept


def _give(database: Path, made: Path) -> None:
    """Give a file the mode of another, and its owner: root may restore another account's file."""
    shutil.copymode(database, made)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        about = database.stat()
        os.chown(made, about.st_uid, about.st_gid)


def _beside(file: Path, end: str) -> Path:
    return file.with_name(file.name + end)
