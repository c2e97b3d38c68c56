"""Schema versions and migrations, for every engine.

Each set of migrations has its own schema number in `meta`, so the tables of the queue and of the
bot evolve independently.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files as files_of
from importlib.resources.abc import Traversable
from pathlib import Path
from uuid import UUID, uuid4

from queueing.core.errors import StoreError
from queueing.store.sql.database import Connection

_HEAD = re.compile(r"-- schema (\d+)\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class MigrationSet:
    """The tables of one part of the program, as numbered SQL files: `0001_queue.sql`, `0002_…`.

    `directory` has the files for SQLite and `postgres` those for PostgreSQL; both create the same
    tables. The first line of the first file is `-- schema NUMBER`, the schema number that this file
    creates. Each further file creates the next number.
    """

    name: str
    directory: Traversable | Path
    postgres: Traversable | Path | None = None

    def files(self) -> list[tuple[int, str]]:
        """Return (schema number, SQL) in order for SQLite. Raises `ValueError` for bad numbers."""
        return self._read(self.directory)

    def files_for_postgres(self) -> list[tuple[int, str]]:
        """Return (schema number, SQL) in order for PostgreSQL. Raises `ValueError` as `files`."""
        return [] if self.postgres is None else self._read(self.postgres)

    def _read(self, folder: Traversable | Path) -> list[tuple[int, str]]:
        names = sorted(f.name for f in folder.iterdir() if f.name.endswith(".sql"))
        numbers = [int(name.split("_", 1)[0]) for name in names]
        if numbers != list(range(1, len(names) + 1)):
            raise ValueError(f"migrations of {self.name!r} must count from 0001: {names}")
        scripts = [(folder / name).read_text(encoding="utf-8") for name in names]
        return list(enumerate(scripts, self._first_number(scripts)))

    def _first_number(self, scripts: Sequence[str]) -> int:
        head = _HEAD.match(scripts[0]) if scripts else None
        if head is None:
            raise ValueError(f"the first file of {self.name!r} must begin with `-- schema NUMBER`")
        return int(head[1])


_STORE = files_of("queueing.store")
QUEUE = MigrationSet(
    name="queue",
    directory=_STORE / "sqlite" / "migrations",
    postgres=_STORE / "postgres" / "migrations",
)
MADE_BEFORE = (
    "the database was made before Usher 0.1.0, and this version cannot read it: move it away and"
    " start with a new one"
)
_NOTE_NUMBER = (
    "INSERT INTO meta (key, value) VALUES (?, ?)"
    " ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)
_FIRST_ID = "INSERT INTO meta (key, value) VALUES ('database_id', ?) ON CONFLICT (key) DO NOTHING"
_VALUE = "SELECT value FROM meta WHERE key = ?"

Files = Sequence[tuple[int, str]]
"""(schema number, SQL) pairs of a set of migrations, in order."""


def bring_forward(
    connection: Connection, name: str, files: Files, run: Callable[[str], None]
) -> None:
    """Run the scripts that a database lacks, inside the caller's transaction.

    Raises `StoreError` if the database's schema is newer or older than this version supports.
    """
    number = present_number(connection, name, files)
    newest = files[-1][0] if files else 0
    if number > newest:
        raise StoreError(
            f"the database was written by a newer Usher ({name} schema {number}, this version"
            f" knows {newest}): install that version again, or restore the backup made before it"
        )
    for each, script in files:
        if each > number:
            run(script)
            connection.execute(_NOTE_NUMBER, (_key(name), str(each)))


def present_number(connection: Connection, name: str, files: Files) -> int:
    """Return the schema number of a set in a database, 0 if it has none.

    Raises `StoreError` for a schema older than the first file.
    """
    row = connection.execute(_VALUE, (_key(name),)).fetchone()
    if row is None:
        return 0
    number = int(row[0])
    if files and number < files[0][0]:
        raise StoreError(MADE_BEFORE)
    return number


def identify(connection: Connection) -> UUID:
    """Return the database's id, creating it at the first call."""
    connection.execute(_FIRST_ID, (str(uuid4()),))
    (database_id,) = connection.execute(_VALUE, ("database_id",)).fetchone()
    return UUID(database_id)


def _key(name: str) -> str:
    return f"schema:{name}"
