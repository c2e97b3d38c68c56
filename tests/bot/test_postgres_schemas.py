"""A database on a server comes forward whole from every schema there has been."""

import shutil
from itertools import product
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bot.chat.records.stored_records import MIGRATIONS
from queueing.core.jobs import JobState
from queueing.store import JobStore, MigrationSet, open_database
from queueing.store.postgres.database import QUEUE_TABLES
from queueing.store.postgres.schema import migrate
from tests.contracts.store_harness import end, heads
from tests.fakes.postgres_server import PostgresServer

QUEUE = len(QUEUE_TABLES.files_for_postgres())
BOT = len(MIGRATIONS.files_for_postgres())
SHAPE = """
SELECT tables.relname::text, tables.relkind::text, columns.attname::text,
    format_type(columns.atttypid, columns.atttypmod), columns.attnotnull,
    pg_get_expr(defaults.adbin, defaults.adrelid)
FROM pg_class AS tables JOIN pg_attribute AS columns ON columns.attrelid = tables.oid
LEFT JOIN pg_attrdef AS defaults
    ON defaults.adrelid = tables.oid AND defaults.adnum = columns.attnum
WHERE tables.relnamespace = 'public'::regnamespace AND columns.attnum > 0
    AND NOT columns.attisdropped
"""
INDEXES = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'"
RULES = (
    "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE connamespace = 'public'::regnamespace"
)
TRIGGERS = "SELECT tgname::text, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal"


def only(migrations: MigrationSet, newest: int, folder: Path) -> MigrationSet:
    """Return a set as an earlier version had it."""
    folder.mkdir()
    for file in sorted(Path(str(migrations.postgres)).glob("*.sql"))[:newest]:
        shutil.copy(file, folder)
    return MigrationSet(name=migrations.name, directory=folder, postgres=folder)


def shape(postgres: PostgresServer, url: str) -> list[set[tuple[Any, ...]]]:
    with postgres.connect(url.rpartition("/")[2]) as connection:
        queries = (SHAPE, INDEXES, RULES, TRIGGERS)
        return [set(connection.execute(query).fetchall()) for query in queries]


@pytest.fixture(scope="module")
def todays_shape(postgres: PostgresServer, postgres_template: str) -> list[set[tuple[Any, ...]]]:
    return shape(postgres, postgres.url(postgres_template))


@pytest.mark.parametrize(
    "versions",
    [each for each in product(range(1, QUEUE + 1), range(1, BOT + 1)) if each != (QUEUE, BOT)],
)
async def test_an_old_database_comes_forward_whole(
    versions: tuple[int, int],
    tmp_path: Path,
    postgres: PostgresServer,
    todays_shape: list[set[tuple[Any, ...]]],
    empty_postgres_url: str,
) -> None:
    """A migration edited after its release would leave the databases behind that have it already."""
    old = (
        only(QUEUE_TABLES, versions[0], tmp_path / "queue"),
        only(MIGRATIONS, versions[1], tmp_path / "bot"),
    )
    with psycopg.connect(empty_postgres_url, cursor_factory=psycopg.RawCursor) as plain:
        migrate(plain, old)
        plain.execute(
            "INSERT INTO jobs (id, model, lane, seq, state, not_before, queued_at, owner, key,"
            " reply_to, request) VALUES (7, 'flux', 'normal', 3, 'pending', 0, 1000, 'ada', 'k',"
            """ '', '{"kind": "text-to-image", "prompt": "cat"}')"""
        )
        plain.execute("INSERT INTO notes (name, value) VALUES ('kept', 'as it was')")
    database = await open_database(empty_postgres_url, migrations=(MIGRATIONS,))
    store = JobStore(database)
    assert await heads(store) == [7]
    job = await store.get(7)
    assert job is not None
    assert (await end(store, job)).state is JobState.COMPLETED
    notes = "SELECT name, value FROM notes"
    kept = await database.read(lambda connection: connection.execute(notes).fetchall())
    assert kept == [("kept", "as it was")]
    await store.aclose()
    assert shape(postgres, empty_postgres_url) == todays_shape


def test_migrations_of_both_engines_come_to_an_end() -> None:
    """Without any earlier schema nothing above would run."""
    assert QUEUE > 1
    assert BOT >= 1
