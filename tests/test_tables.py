"""What the tests begin with is what a new installation begins with."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from uuid import UUID

import pytest

from queueing.store.database import MigrationSet
from queueing.store.sqlite.connection import SqliteConnection
from queueing.store.sqlite.schema import migrate
from tests.tables import SHIPPED, migrate_at_once


def made(
    by: Callable[[SqliteConnection, Sequence[MigrationSet]], UUID], sets: Sequence[MigrationSet]
) -> list[object]:
    """Return what a new file holds, in its order, but for its id."""
    with closing(
        sqlite3.connect(":memory:", isolation_level=None, factory=SqliteConnection)
    ) as connection:
        database_id = by(connection, sets)
        tables = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY rowid")
        rows = [each.replace(str(database_id), "") for each in connection.iterdump()]
        return [tables.fetchall(), rows]


@pytest.mark.parametrize("sets", SHIPPED, ids=["queue", "bot"])
def test_tables_made_at_once_are_those_of_the_migrations(sets: Sequence[MigrationSet]) -> None:
    """Every other test would pass on tables that no installation has."""
    assert made(migrate_at_once, sets) == made(migrate, sets)
