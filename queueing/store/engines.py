"""Opens a database with the engine that its address names."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from queueing.core.errors import StoreError
from queueing.core.leases import Lease, LeaseStore
from queueing.store.sql.database import Database
from queueing.store.sql.migrations import MigrationSet
from queueing.store.sqlite.database import open_sqlite

POSTGRES = ("postgresql://", "postgres://")
NOT_INSTALLED = "PostgreSQL needs its driver: pip install usher-bot[postgres]"


def is_postgres(url: str) -> bool:
    """Return whether an address names a PostgreSQL database."""
    return url.startswith(POSTGRES)


async def open_database(
    url: str,
    *,
    migrations: Sequence[MigrationSet] = (),
    inline: bool = False,
    most_mb: int | None = None,
    lease: Lease | None = None,
    shared: bool = False,
) -> Database:
    """Open or create the database and migrate it to this version's schema.

    The address is `sqlite:///relative/path`, `sqlite:////absolute/path`, `sqlite://` for a database
    in memory, or `postgresql://user:password@host/database`, which must exist.

    - `migrations` are sets in addition to the queue's.
    - `inline` does all work in the calling thread.
    - `most_mb` limits the size of a SQLite file: at the limit, writes fail as on a full disk until
      something is deleted. PostgreSQL ignores it.
    - `lease` is for PostgreSQL only: once another process takes its role, every write raises
      `Fenced`.
    - `shared` lets several processes open a PostgreSQL database at once; they may write everything
      except jobs.

    Raises `StoreError`, which says what to do, if the database cannot be used.
    """
    if not is_postgres(url):
        return await open_sqlite(url, migrations=migrations, inline=inline, most_mb=most_mb)
    try:
        from queueing.store.postgres.database import open_postgres  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise StoreError(NOT_INSTALLED) from error
    return await open_postgres(
        url, migrations=migrations, inline=inline, lease=lease, shared=shared
    )


@asynccontextmanager
async def open_leases(
    url: str,
    *,
    migrations: Sequence[MigrationSet],
    process: str,
    lease_s: float,
    compared: Callable[[float], None],
) -> AsyncIterator[LeaseStore]:
    """Migrate a database on a server and provide its leases.

    `process` names this process for people. `compared` is called, in a thread, with how far the
    server's clock is ahead of this machine's, in seconds. Raises `StoreError` if the database
    cannot be used.
    """
    try:
        from queueing.store.postgres.database import migrate_postgres  # noqa: PLC0415  # an extra
        from queueing.store.postgres.lease_store import PostgresLeases  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise StoreError(NOT_INSTALLED) from error
    await migrate_postgres(url, migrations=migrations)
    roles = PostgresLeases(url, process=process, lease_s=lease_s, compared=compared)
    try:
        yield roles
    finally:
        await roles.aclose()
