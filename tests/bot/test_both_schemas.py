"""The tables of both engines are the same, by name, column, type and key."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from bot.app.setup import MIGRATIONS
from queueing.store.engines import open_database
from tests.fakes.programs.postgres_server import PostgresServer

TYPES = {"INTEGER": "bigint", "REAL": "double precision", "TEXT": "text", "BLOB": "bytea"}
OWN = {"deleted_jobs", "roles", "lease_secrets"}
"""What SQLite keeps in tables of its own (`sqlite_sequence`), and what several processes share."""

Columns = Mapping[str, Mapping[str, tuple[str, bool]]]

COLUMNS = """
SELECT tables.table_name, columns.column_name, columns.data_type,
    columns.is_nullable = 'NO'
FROM information_schema.tables JOIN information_schema.columns USING (table_schema, table_name)
WHERE table_schema = 'public' AND table_type = 'BASE TABLE'
"""
UNIQUE = """
SELECT class.relname, array_agg(attribute.attname::text ORDER BY attribute.attname)
FROM pg_index AS index JOIN pg_class AS class ON class.oid = index.indrelid
JOIN pg_attribute AS attribute
    ON attribute.attrelid = class.oid AND attribute.attnum = ANY (index.indkey)
WHERE index.indisunique AND class.relnamespace = 'public'::regnamespace
GROUP BY index.indexrelid, class.relname
"""


def columns_here(path: Path) -> Columns:
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
        return {
            table: {
                name: (TYPES[kind], bool(must or in_key))
                for _, name, kind, must, _, in_key in connection.execute(
                    f"PRAGMA table_info('{table}')"
                )
            }
            for (table,) in tables
        }


def keys_here(path: Path) -> set[tuple[str, tuple[str, ...]]]:
    with closing(sqlite3.connect(path)) as connection:
        found = {
            (
                table,
                tuple(
                    sorted(row[2] for row in connection.execute(f"PRAGMA index_info('{index}')"))
                ),
            )
            for table in columns_here(path)
            for _, index, unique, *_ in connection.execute(f"PRAGMA index_list('{table}')")
            if unique
        }
        keys = {
            (table, tuple(sorted(row[1] for row in rows if row[5])))
            for table in columns_here(path)
            if (rows := connection.execute(f"PRAGMA table_info('{table}')").fetchall())
        }
        return {key for key in found | keys if key[1]}


async def test_both_engines_have_the_same_tables(
    tmp_path: Path, postgres: PostgresServer, empty_postgres_url: str
) -> None:
    """A column that one engine lacks, or stores less of, would fail only on that engine."""
    path = tmp_path / "usher.db"
    for url in (f"sqlite:///{path}", empty_postgres_url):
        await (await open_database(url, migrations=(MIGRATIONS,))).aclose()
    there: dict[str, dict[str, tuple[str, bool]]] = {}
    name = empty_postgres_url.rpartition("/")[2]
    for table, column, kind, must in postgres.sql(COLUMNS, database=name):
        there.setdefault(str(table), {})[str(column)] = (str(kind), bool(must))
    assert there.keys() - OWN == columns_here(path).keys()
    for table, columns in columns_here(path).items():
        assert there[table] == columns, table
    keys = {(str(table), tuple(columns)) for table, columns in postgres.sql(UNIQUE, database=name)}
    assert {key for key in keys if key[0] not in OWN} == keys_here(path)
