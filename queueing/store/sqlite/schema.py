"""Brings a database to the schema this version knows; forward only.

Each set of migrations counts its own version in `meta`, so the bot's tables live beside the
queue's without either knowing the other's numbers.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from uuid import UUID, uuid4

from queueing.core.errors import StoreError


@dataclass(frozen=True, kw_only=True, slots=True)
class MigrationSet:
    """Numbered SQL files (`0001_jobs.sql`, `0002_…`) under a name of their own."""

    name: str
    directory: Traversable | Path

    def files(self) -> list[tuple[int, str]]:
        """Return (number, SQL) in order; raises `ValueError` unless they count from 1."""
        names = sorted(f.name for f in self.directory.iterdir() if f.name.endswith(".sql"))
        numbers = [int(name.split("_", 1)[0]) for name in names]
        if numbers != list(range(1, len(names) + 1)):
            raise ValueError(f"migrations of {self.name!r} must count from 0001: {names}")
        return [
            (number, (self.directory / name).read_text(encoding="utf-8"))
            for number, name in zip(numbers, names, strict=True)
        ]


def migrate(connection: sqlite3.Connection, sets: Sequence[MigrationSet]) -> UUID:
    """Apply what is missing, inside the caller's transaction; return the database's id.

    Raises `StoreError` for a newer schema, `sqlite3.Error` when the file cannot be used.
    """
    connection.execute(
        "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT"
    )
    for migrations in sets:
        _bring_forward(connection, migrations)
    connection.execute("INSERT OR IGNORE INTO meta VALUES ('database_id', ?)", (str(uuid4()),))
    (database_id,) = connection.execute(
        "SELECT value FROM meta WHERE key = 'database_id'"
    ).fetchone()
    return UUID(database_id)


def _bring_forward(connection: sqlite3.Connection, migrations: MigrationSet) -> None:
    key = f"schema:{migrations.name}"
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    version = int(row[0]) if row else 0
    files = migrations.files()
    if version > len(files):
        raise StoreError(
            f"the database was written by a newer Usher ({migrations.name} schema {version}, this"
            f" version knows {len(files)}): install that version again, or restore the backup made"
            " before it"
        )
    for number, script in files[version:]:
        for statement in _statements(script):
            connection.execute(statement)
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, str(number)))


def _statements(script: str) -> Iterator[str]:
    """Split a script; `executescript` would commit before it and break the transaction."""
    statement = ""
    for piece in script.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):  # not within a string, comment or trigger
            yield statement
            statement = ""
