"""PostgresDatabase: the database of an installation on a PostgreSQL server.

Owns opening and closing; knows no tables but `meta`.
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
    of_post,
)
from queueing.store.sql.database import Connection, Damage, Damaged, Database, DatabaseAway
from queueing.store.sql.migrations import QUEUE, MigrationSet


def change_nothing(_: Connection) -> None:
    """Change nothing: the transaction itself is what is tried."""


log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0


class PostgresDatabase(Database):
    """The database on a server; get one from `open_postgres`."""

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
        """Up to which number jobs may have been that the database does not know any more."""
        return 0 if self._lease is None else self._lease.numbers_used

    async def fenced(self) -> None:
        """Wait until the post is lost, or the database has gone back in time. Raises `Fenced`.

        An idle process writes nothing, and would not notice.
        """
        while True:
            try:
                await self._require_post()
            except Fenced:
                raise
            except StoreError as error:
                log.debug("the post cannot be looked at: %s", error)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _require_post(self) -> None:
        if self._lease is None:
            return
        known, post = self._writer.written, of_post(self._lease)
        row = await self.read(lambda connection: connection.execute(WRITTEN, post).fetchone())
        if row is None:
            raise Fenced(FENCED.format(self._lease.name))
        if row[0] < known:
            raise Fenced(WENT_BACK)

    @property
    def damage(self) -> str | None:
        """What to do about damage or an absent server, None without any."""
        return super().damage or self._session.trouble

    async def runs(self) -> frozenset[str]:
        """Return the openings of this database that live, as their sessions on the server do."""
        return await self.read(living_runs)

    def _failed(self, failure: Exception) -> None:
        """Note a failure; if the server is away, look for it until it answers."""
        self._damage.look(failure)
        if isinstance(failure, DatabaseAway) and self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="look for the database server")

    async def _look(self) -> None:
        """Write nothing until that succeeds: while nothing is accepted, no one else may try."""
        found = False
        while not found:
            await asyncio.sleep(_LOOK_EVERY_S)
            try:
                await self.write(change_nothing)
            except (Damaged, Fenced):
                found = True  # it answers, and is not to be written
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

    The parameters are those of `open_database`. Raises `StoreError` with what to do when the
    database cannot be used; then nothing has changed.
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
    """Bring the database to this version's schema, alone among all processes. Raises `StoreError`."""
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
    """Begin both sessions and migrate; return the database's id."""
    with closing(connect(address)) as one, closing(connect(address)) as other:
        refuse_pooler(one, other)
    writing, reading = (session.usable() for session in sessions)
    with writing.transaction():
        database_id = migrate(writing, sets)
    reading.execute("SELECT 1")
    return database_id


def _begin_writing(lock: SessionLock, plain: Plain) -> None:
    """Take the lock, and have rows found by their keys, whatever the server knows of the tables.

    Statements are planned once. One that was planned while there were few rows would otherwise read
    all of them for a batch of changes.
    """
    lock(plain)
    for way in ("seqscan", "hashjoin", "mergejoin"):
        plain.execute(f"SET enable_{way} = off")


def _begin_reading(_: Plain) -> None:
    """Nothing is asked of a session that only reads."""
