"""Chooses the engine by the address of a database."""

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
    """Return whether an address names a database on a PostgreSQL server."""
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

    `sqlite:///relative/path`, `sqlite:////absolute/path`, `sqlite://` for one in memory, or
    `postgresql://user:password@host/database`, which must exist. `migrations` are further sets
    beside the queue's own. `inline` does everything in the calling thread. Beyond `most_mb` a
    file does not grow: it then counts as a full disk, until something is deleted; a server's
    database is the server's to limit. With a `lease`, which only a server knows, nothing is written
    once another process has taken its post (`Fenced`). `shared`, several processes may open it so
    at once: they write what the bot keeps beside the jobs, and no job. Raises `StoreError` with what to do when
    the database cannot be used.
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
async def open_posts(
    url: str,
    *,
    migrations: Sequence[MigrationSet],
    process: str,
    lease_s: float,
    compared: Callable[[float], None],
) -> AsyncIterator[LeaseStore]:
    """Provide the posts of a database on a server, which is migrated first.

    `process` names this process for people. `compared` is told, in a thread, how far the server's
    clock is ahead of this machine's. Raises `StoreError` when the database cannot be used.
    """
    try:
        from queueing.store.postgres.database import migrate_postgres  # noqa: PLC0415  # an extra
        from queueing.store.postgres.lease_store import PostgresLeases  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise StoreError(NOT_INSTALLED) from error
    await migrate_postgres(url, migrations=migrations)
    posts = PostgresLeases(url, process=process, lease_s=lease_s, compared=compared)
    try:
        yield posts
    finally:
        await posts.aclose()
