"""Brings a SQLite file to the schema this version knows."""

import sqlite3
from collections.abc import Iterator, Sequence
from uuid import UUID

from queueing.store.database import MigrationSet
from queueing.store.schema import bring_forward, identify
from queueing.store.sqlite.connection import SqliteConnection


def migrate(connection: SqliteConnection, sets: Sequence[MigrationSet]) -> UUID:
    """Apply the missing migrations, inside the caller's transaction; return the database's id.

    Raises `StoreError` for a newer schema, `sqlite3.Error` when the file cannot be used.
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


def _statements(script: str) -> Iterator[str]:
    """Split a script; `executescript` would commit before it and break the transaction."""
    statement = ""
    for piece in script.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):  # not within a string, comment or trigger
            yield statement
            statement = ""
