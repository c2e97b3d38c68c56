"""What an operator does to a database, whichever engine it is on: try, read all of it, copy, back up."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType

from queueing.core.errors import StoreError
from queueing.core.leases import ServerLook
from queueing.store.engines import NOT_INSTALLED, is_postgres
from queueing.store.maintenance import copy_all
from queueing.store.sql.database import Connection, MigrationSet
from queueing.store.sqlite import backup
from queueing.store.sqlite.database import path_of
from queueing.store.sqlite.file_lock import made_by


def examine_server(url: str, migrations: Sequence[MigrationSet]) -> str:
    """Do what the bot does at its start, and undo it; return what the server is like."""
    described: str = _server_tools().rehearse(url, migrations)
    return described


def look_at_server(url: str) -> ServerLook:
    """Read who holds which post and which jobs are open; nothing changes. Raises `StoreError`."""
    found: ServerLook = _server_tools().look_at(url)
    return found


def damage_of(url: str) -> list[str]:
    """Read everything and return the damage, nothing when all is well. Raises `StoreError`."""
    if is_postgres(url):
        found: list[str] = _server_tools().damage(url)
        return found
    return backup.damage(_file(url))


def back_up(url: str, target: Path) -> None:
    """Write a consistent copy of a file; raises `StoreError`, also for a server's database."""
    if is_postgres(url):
        raise StoreError(_server_tools().BACKUP_ADVICE)
    backup.backup(_file(url), target)


def copy_database(
    source: str, target: str, migrations: Sequence[MigrationSet]
) -> Mapping[str, int]:
    """Copy everything into an empty database, in one transaction; return the rows of each table.

    Both must be stopped, and are brought to this version's schema. Raises `StoreError`; the target
    then is as it was.
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
        raise StoreError("a database in memory ends with its process: name a file")
    return path


def _server_tools() -> ModuleType:
    try:
        from queueing.store.postgres import checks as server  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise StoreError(NOT_INSTALLED) from error
    return server
