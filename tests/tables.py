"""Today's tables of a new SQLite file, made as they are and not by what led to them.

Most tests begin with a new file, and its whole history takes longer than they do.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from uuid import UUID

from bot.chat.records.stored_records import MIGRATIONS
from queueing.store.database import MigrationSet
from queueing.store.schema import identify
from queueing.store.sqlite.connection import SqliteConnection
from queueing.store.sqlite.database import QUEUE_MIGRATIONS
from queueing.store.sqlite.schema import migrate

SHIPPED = ((QUEUE_MIGRATIONS,), (QUEUE_MIGRATIONS, MIGRATIONS))
_MADE = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid"


def migrate_at_once(connection: SqliteConnection, sets: Sequence[MigrationSet]) -> UUID:
    """Do as `migrate` does; where nothing is there yet, copy what it makes elsewhere."""
    begun = connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    if begun or tuple(sets) not in SHIPPED:
        return migrate(connection, sets)
    for statement in _made(SHIPPED.index(tuple(sets))):
        connection.execute(statement)
    return identify(connection)


@cache
def _made(which: int) -> Sequence[str]:
    """Return what makes the tables and rows that a file begins with, but for its id."""
    with closing(sqlite3.connect(":memory:", factory=SqliteConnection)) as elsewhere:
        migrate(elsewhere, SHIPPED[which])
        elsewhere.execute("DELETE FROM meta WHERE key = 'database_id'")
        elsewhere.commit()
        made = [sql for (sql,) in elsewhere.execute(_MADE)]
        return made + [each for each in elsewhere.iterdump() if each.startswith("INSERT INTO")]
