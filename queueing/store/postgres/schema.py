"""Migrates a PostgreSQL database to this version's schema, and rejects those of other programs."""

from collections.abc import Sequence
from uuid import UUID

from queueing.core.errors import StoreError
from queueing.store.postgres.connection import Plain, PostgresConnection
from queueing.store.sql.migrations import (
    QUEUE,
    MigrationSet,
    bring_forward,
    identify,
    present_number,
)

_ONE_AT_A_TIME = "1431521363, hashtext(current_schema())"  # two processes may start at once
_OTHERS = (
    "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace(current_schema())"
    " AND relkind IN ('r', 'p', 'v', 'm', 'f')"
)
_OURS = (
    "SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass(quote_ident(current_schema())"
    " || '.meta') AND attname IN ('key', 'value') AND atttypid = 'text'::regtype"
)
FOREIGN = "the database has the tables of another program: create one for Usher alone, and name it"
NO_SCHEMA = (
    "the account has no schema to create tables in: make it the owner of the database"
    " (ALTER DATABASE … OWNER TO …)"
)


def migrate(plain: Plain, sets: Sequence[MigrationSet]) -> UUID:
    """Apply missing migrations inside the caller's transaction. Returns the database's id.

    Raises `StoreError` for a schema that this version does not know or another program's database,
    and `psycopg.Error` if the database cannot be used.
    """

    def run(script: str) -> None:
        plain.execute(script)

    plain.execute("SET LOCAL statement_timeout = 0")
    plain.execute("SET LOCAL lock_timeout = 0")
    plain.execute(f"SELECT pg_advisory_xact_lock({_ONE_AT_A_TIME})")
    if not is_known(plain):
        plain.execute('CREATE TABLE meta (key text COLLATE "C" PRIMARY KEY, value text NOT NULL)')
    connection = PostgresConnection(plain)
    for migrations in sets:
        bring_forward(connection, migrations.name, migrations.files_for_postgres(), run)
    return identify(connection)


def is_known(plain: Plain) -> bool:
    """Return whether Usher's tables exist, False if the database is empty.

    Raises `StoreError` for tables of another program, or older than the first migration.
    """
    schema = _one(plain, "SELECT current_schema()")
    if schema is None:
        raise StoreError(NO_SCHEMA)
    if not _one(plain, _OTHERS):
        return False
    ours = _one(plain, _OURS) == 2
    if not ours or not present_number(
        PostgresConnection(plain), QUEUE.name, QUEUE.files_for_postgres()
    ):
        raise StoreError(FOREIGN)
    return True


def _one(plain: Plain, query: str) -> object:
    row = plain.execute(query).fetchone()
    return None if row is None else row[0]
