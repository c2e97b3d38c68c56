"""PostgresDatabase: the database of an installation on a PostgreSQL server.

Opens and closes it; knows no table except `meta`.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from functools import partial
from uuid import UUID

import psycopg

from queueing.core.errors import Fenced, StoreError
from queueing.core.leases import Lease
from queueing.store.postgres.connection import Plain
from queueing.store.postgres.failures import sentence
from queueing.store.postgres.schema import migrate
from queueing.store.postgres.session import Address, Session, connect, read_address
from queueing.store.postgres.session_lock import SessionLock, living_runs, refuse_pooler
from queueing.store.postgres.transactions import (
    FENCED,
    READING,
    WENT_BACK,
    WRITING,
    WRITTEN,
    PostgresTransactions,
    of_role,
)
from queueing.store.sql.database import Connection, Damage, Damaged, Database, DatabaseAway
from queueing.store.sql.migrations import QUEUE, MigrationSet


def change_nothing(_: Connection) -> None:
    """Change nothing, to test whether a transaction succeeds."""


log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0


class PostgresDatabase(Database):
    """A database on a server. Created by `open_postgres`."""

    size_query = "SELECT pg_database_size(current_database())"
    _writer: PostgresTransactions

    def __init__(
        self,
        database_id: UUID,
        run: str,
        damage: Damage,
        *,
        alone: bool,
        sessions: tuple[Session, Session],
        inline: bool,
        lease: Lease | None = None,
    ) -> None:
        super().__init__(database_id, run, damage, alone=alone)
        self._session, reading = sessions
        worker = partial(PostgresTransactions, inline=inline, failed=self._failed)
        self._lease = lease
        self._looking: asyncio.Task[None] | None = None
        self._writer = worker(self._session, replace(WRITING, lease=lease))
        self._reader = worker(reading, READING)

    @property
    def numbers_used(self) -> int:
        """The highest job id that may have been used, even if the database has lost the job."""
        return 0 if self._lease is None else self._lease.numbers_used

    async def fenced(self) -> None:
        """Wait until the role is lost or the database has lost commits, then raise `Fenced`.

        Needed because an idle process writes nothing, and would not notice.
        """
        while True:
            try:
                await self._require_role()
            except Fenced:
                raise
            except StoreError as error:
                log.debug("the lease cannot be checked: %s", error)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _require_role(self) -> None:
        if self._lease is None:
            return
        known, role = self._writer.written, of_role(self._lease)
        row = await self.read(lambda connection: connection.execute(WRITTEN, role).fetchone())
        if row is None:
            raise Fenced(FENCED.format(self._lease.name))
        if row[0] < known:
            raise Fenced(WENT_BACK)

    @property
    def damage(self) -> str | None:
        """What to do about damage or an unreachable server, or None."""
        return super().damage or self._session.trouble

    async def runs(self) -> frozenset[str]:
        """Return the `run` of every opening whose session on the server is alive."""
        return await self.read(living_runs)

    def _failed(self, failure: Exception) -> None:
        """Record a failure. If the server is away, probe it until it answers."""
        self._damage.look(failure)
        if isinstance(failure, DatabaseAway) and self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="look for the database server")

    async def _look(self) -> None:
        """Try empty transactions until one succeeds.

        Nothing else writes in that time, because no job is accepted.
        """
        found = False
        while not found:
            await asyncio.sleep(_LOOK_EVERY_S)
            try:
                await self.write(change_nothing)
            except (Damaged, Fenced):
                found = True  # the server answers, but the database must not be written
            except StoreError as error:
                log.debug("the database server is still away: %s", error)
            else:
                found = True
        self._looking = None

    async def _close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        await super()._close()


async def open_postgres(
    url: str,
    *,
    migrations: Sequence[MigrationSet] = (),
    inline: bool = False,
    lease: Lease | None = None,
    shared: bool = False,
) -> PostgresDatabase:
    """Open the database and migrate it to this version's schema.

    Takes the parameters of `open_database`. Raises `StoreError`, which says what to do, if the
    database cannot be used; nothing has changed then.
    """
    address = read_address(url)
    lock, damage = SessionLock(lease, shared=shared), Damage()
    sessions = Session(address, partial(_begin_writing, lock)), Session(address, _begin_reading)
    try:
        async with AsyncExitStack() as opened:
            for session in sessions:
                opened.callback(session.drop)
            prepare = partial(_prepared, address, sessions, (QUEUE, *migrations))
            database_id = prepare() if inline else await asyncio.to_thread(prepare)
            lock.belongs_to(str(database_id))
            opened.pop_all()
    except (psycopg.Error, StoreError) as error:
        raise StoreError(f"{address.shown}: {sentence(error)}") from error
    return PostgresDatabase(
        database_id,
        lock.run,
        damage,
        alone=lease is None and not shared,
        sessions=sessions,
        inline=inline,
        lease=lease,
    )


async def migrate_postgres(url: str, *, migrations: Sequence[MigrationSet] = ()) -> None:
    """Migrate the database to this version's schema, under a lock. Raises `StoreError`."""
    address = read_address(url)

    def forward() -> None:
        with closing(connect(address)) as one, closing(connect(address)) as other:
            refuse_pooler(one, other)
            with one.transaction():
                migrate(one, (QUEUE, *migrations))

    try:
        await asyncio.to_thread(forward)
    except (psycopg.Error, StoreError) as error:
        raise StoreError(f"{address.shown}: {sentence(error)}") from error


def _prepared(
    address: Address, sessions: tuple[Session, Session], sets: Sequence[MigrationSet]
) -> UUID:
    """Start both sessions and migrate. Returns the database's id."""
    with closing(connect(address)) as one, closing(connect(address)) as other:
        refuse_pooler(one, other)
    writing, reading = (session.usable() for session in sessions)
    with writing.transaction():
        database_id = migrate(writing, sets)
    reading.execute("SELECT 1")
    return database_id


def _begin_writing(lock: SessionLock, plain: Plain) -> None:
    """Take the lock, and make the planner use indexes whatever it knows about the tables.

    Statements are planned only once. A plan made while there were few rows would keep scanning
    whole tables for each batch of changes.
    """
    lock(plain)
    for way in ("seqscan", "hashjoin", "mergejoin"):
        plain.execute(f"SET enable_{way} = off")


def _begin_reading(_: Plain) -> None:
    """Do nothing: a session that only reads needs no lock."""
