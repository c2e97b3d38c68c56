"""Operator's tools for a PostgreSQL database: rehearsal, full check, single transaction."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import psycopg

from queueing.core.errors import StoreError
from queueing.core.leases import ServerLook
from queueing.store.postgres.connection import Plain, PostgresConnection
from queueing.store.postgres.failures import sentence
from queueing.store.postgres.lease_reader import look
from queueing.store.postgres.schema import is_known, migrate
from queueing.store.postgres.session import Address, connect, read_address
from queueing.store.postgres.session_lock import TAKEN, SessionLock, refuse_pooler
from queueing.store.sql.database import Connection
from queueing.store.sql.migrations import QUEUE, MigrationSet

BACKUP_ADVICE = (
    "back up this database with PostgreSQL's tools: pg_dump copies it while Usher runs, and"
    " pg_restore restores it (docs/postgresql.md); `usher db copy` copies it to a SQLite file"
)
RESTORE_ADVICE = (
    "restore this database with PostgreSQL's tools: pg_restore puts back what pg_dump has copied"
    " (docs/postgresql.md); `usher db copy FILE` copies a SQLite file into an empty database"
)
_FLUSHES = 5
_TABLES = (
    "SELECT quote_ident(relname) FROM pg_class WHERE relkind = 'r'"
    " AND relnamespace = to_regnamespace(current_schema()) ORDER BY relname"
)
_LED = "SELECT 1 FROM roles WHERE until > extract(epoch from clock_timestamp())"
_INDEXES = (
    "SELECT relname, bt_index_check(index.indexrelid, true) FROM pg_index AS index"
    " JOIN pg_class AS class ON class.oid = index.indexrelid"
    " JOIN pg_am ON pg_am.oid = class.relam AND amname = 'btree'"
    " WHERE relnamespace = to_regnamespace(current_schema())"
)


def look_at(url: str) -> ServerLook:
    """Return the held roles and open jobs. Changes nothing. Raises `StoreError`."""
    with _reached(url) as (_, plain):
        return look(plain)


def rehearse(url: str, migrations: Sequence[MigrationSet]) -> str:
    """Rehearse the bot's start and roll it back. Returns a description of the server.

    Raises `StoreError`, which says what to do, if the database cannot be used.
    """
    with _reached(url) as (address, plain):
        with closing(connect(address)) as other:
            refuse_pooler(plain, other)
        known = is_known(plain)
        with plain.transaction(force_rollback=True):
            migrate(plain, (QUEUE, *migrations))
        version = plain.info.parameter_status("server_version")
        state = "fits this version" if known else "its tables are created at the first start"
        row = plain.execute(
            "SELECT pg_database_size(current_database()) / 1048576.0::float8"
        ).fetchone()
        size = row[0] if row else 0.0
        flush_ms = _flush_ms(plain)
    return f"PostgreSQL {version}, {size:.1f} MB, a flush takes {flush_ms:.1f} ms; {state}"


def _flush_ms(plain: Plain) -> float:
    """Return how long the fastest of several empty commits takes, in milliseconds."""
    took = []
    for _ in range(_FLUSHES):
        began = time.perf_counter()
        with plain.transaction():
            plain.execute("SELECT pg_current_xact_id()")  # a transaction id forces a real commit
        took.append(time.perf_counter() - began)
    return min(took) * 1000


def damage(url: str) -> list[str]:
    """Read every row, and check every index if the server has amcheck. Returns the damage found.

    Raises `StoreError`.
    """
    found = []
    with _reached(url) as (_, plain):
        if not is_known(plain):
            raise StoreError("it has no tables of Usher")
        checks = [
            f"SELECT sum(length(md5(rows::text))) FROM {table} AS rows"  # noqa: S608  # the database's own names
            for (table,) in plain.execute(_TABLES).fetchall()
        ]
        if plain.execute("SELECT 1 FROM pg_extension WHERE extname = 'amcheck'").fetchone():
            checks.append(_INDEXES)
        for check in checks:
            try:
                plain.execute(check)
            except psycopg.errors.InternalError_ as error:  # class XX: damage
                found.append(error.diag.message_primary or str(error))
    return found


@contextmanager
def one_transaction(url: str, migrations: Sequence[MigrationSet]) -> Iterator[Connection]:
    """Own and migrate the database, and provide a connection, all in one transaction.

    Raises `StoreError`, which says what to do, if the database cannot be used.
    """
    with _reached(url) as (address, plain):
        with closing(connect(address)) as other:
            refuse_pooler(plain, other)
        SessionLock()(plain)
        with plain.transaction():
            plain.execute("SET LOCAL statement_timeout = 0")
            plain.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            migrate(plain, (QUEUE, *migrations))
            if plain.execute(_LED).fetchone():
                raise StoreError(TAKEN)
            yield PostgresConnection(plain)


@contextmanager
def _reached(url: str) -> Iterator[tuple[Address, Plain]]:
    address = read_address(url)
    try:
        with closing(connect(address)) as plain:
            yield address, plain
    except psycopg.Error as error:
        raise StoreError(f"{address.shown}: {sentence(error)}") from error
    except StoreError as error:
        raise StoreError(f"{address.shown}: {error}") from error
