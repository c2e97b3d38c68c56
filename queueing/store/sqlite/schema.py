"""Brings a SQLite file to the schema this version knows."""

import sqlite3
from collections.abc import Iterator, Sequence
from uuid import UUID

from queueing.store.sql.database import MigrationSet
from queueing.store.sql.migrations import QUEUE, bring_forward, identify, present_number
from queueing.store.sqlite.connection import SqliteConnection


def migrate(connection: SqliteConnection, sets: Sequence[MigrationSet]) -> UUID:
    """Apply the missing migrations, inside the caller's transaction; return the database's id.

    Raises `StoreError` for a schema that this version does not know, `sqlite3.Error` when the file
    cannot be used.
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


def refuse_older(connection: SqliteConnection) -> None:
    """Raise `StoreError` for a database from before the first migration; other files may be read."""
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'meta'").fetchone():
        present_number(connection, QUEUE.name, QUEUE.files())


def _statements(script: str) -> Iterator[str]:
    """Split a script; `executescript` would commit before it and break the transaction."""
    statement = ""
    for piece in script.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):  # not within a string, comment or trigger
            yield statement
            statement = ""
