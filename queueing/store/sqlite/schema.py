"""Brings a database to the schema this version knows; forward only.

Each set of migrations counts its own version in `meta`, so the bot's tables live beside the queue's
without either knowing the other's numbers.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from uuid import UUID, uuid4

from queueing.core.errors import StoreError
from queueing.store.database import MigrationSet

_NOTE_VERSION = (
    "INSERT INTO meta (key, value) VALUES (?, ?)"
    " ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)


def migrate(connection: sqlite3.Connection, sets: Sequence[MigrationSet]) -> UUID:
    """Apply the missing migrations, inside the caller's transaction; return the database's id.

    Raises `StoreError` for a newer schema, `sqlite3.Error` when the file cannot be used.
    """
    connection.execute(
        "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT"
    )
    for migrations in sets:
        _bring_forward(connection, migrations)
    connection.execute(
        "INSERT INTO meta (key, value) VALUES ('database_id', ?) ON CONFLICT (key) DO NOTHING",
        (str(uuid4()),),
    )
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
        connection.execute(_NOTE_VERSION, (key, str(number)))


def _statements(script: str) -> Iterator[str]:
    """Split a script; `executescript` would commit before it and break the transaction."""
    statement = ""
    for piece in script.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):  # not within a string, comment or trigger
            yield statement
            statement = ""
