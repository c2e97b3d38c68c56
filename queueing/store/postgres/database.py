"""PostgresDatabase: the database of an installation on a PostgreSQL server.

Owns opening and closing; knows no tables but `meta`.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import psycopg

from queueing.core.concurrency import undisturbed
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
from queueing.store.sql.database import (
    ChangeKind,
    Connection,
    Damaged,
    DatabaseAway,
    Item,
    MigrationSet,
    Result,
    T,
)
from queueing.store.sql.migrations import QUEUE


def change_nothing(_: Connection) -> None:
    """Change nothing: the transaction itself is what is tried."""


def _changed(connection: Connection, changes: Sequence[Callable[[Connection], Any]]) -> list[Any]:
    return [_in_savepoint(connection, change) for change in changes]


def _in_savepoint(connection: Connection, change: Callable[[Connection], Any]) -> Any:
    """Run a change that alone is undone if it raises, so that its neighbours need not wait.

    Both statements are under way with the change's own and cost no further way to the server.
    """
    connection.execute("SAVEPOINT change")
    try:
        result = change(connection)
    except psycopg.Error:
        raise  # the whole transaction is spoilt: it starts again, each change alone
    except Exception as error:  # noqa: BLE001 - it goes to the one who asked
        connection.execute("ROLLBACK TO SAVEPOINT change")
        result = error
    connection.execute("RELEASE SAVEPOINT change")
    return result


def _asked(connection: Connection, queries: Sequence[Callable[[Connection], Any]]) -> list[Any]:
    results: list[Any] = []
    for query in queries:
        try:
            results.append(query(connection))
        except psycopg.Error:
            raise  # the transaction is spoilt for the others: each is asked alone
        except Exception as error:  # noqa: BLE001 - it goes to the one who asked
            results.append(error)
    return results


CHANGES: ChangeKind[Callable[[Connection], Any], Any] = ChangeKind(run=_changed)
QUERIES: ChangeKind[Callable[[Connection], Any], Any] = ChangeKind(run=_asked)


log = logging.getLogger(__name__)

_MB = 1024 * 1024
_LOOK_EVERY_S = 1.0
_SIZE = "SELECT pg_database_size(current_database())"


class _Trouble:
    """Remembers what no later try can mend, and reports it to the operator once."""

    def __init__(self) -> None:
        self.met: str | None = None

    def look(self, failure: Exception) -> None:
        if self.met is None and isinstance(failure, Damaged):
            self.met = str(failure)
            log.error("%s; until then nothing new is accepted", self.met)


class PostgresDatabase:
    """`Database` on a server; get one from `open_postgres`.

    All methods may be called concurrently and cancelled.
    """

    def __init__(
        self,
        *,
        database_id: UUID,
        run: str,
        alone: bool,
        sessions: tuple[Session, Session],
        trouble: _Trouble,
        inline: bool,
        lease: Lease | None = None,
    ) -> None:
        self.id = database_id
        self.run = run
        self.alone = alone
        self._session, reading = sessions
        self._trouble = trouble
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
        return self._trouble.met or self._session.trouble

    def look_at_file(self) -> str | None:
        """Return `damage`: what happens to a server's files is the server's to notice."""
        return self.damage

    def is_short_of_disk(self) -> bool:
        """Return False: only the server knows its disk, and says so when it is full."""
        return False

    async def write(self, change: Callable[[Connection], T]) -> T:
        """Run a change in the writer's next transaction; return once it is durable.

        The change must neither commit nor block on anything but its connection, which it gets in
        another thread. When it raises, it alone is undone and the caller gets the exception. It may
        run again if the transaction around it fails. Raises `StoreError`.
        """
        result: T = await self._writer.submit(CHANGES, change)
        return result

    async def write_and_scrub(self, change: Callable[[Connection], T]) -> T:
        """Run a change as `write` does; the server reuses what it deleted when it vacuums.

        Its log and its copies keep older versions for as long as the server is told to.
        """
        return await self.write(change)

    async def used_mb(self) -> int:
        """Return the size of the database in MB, rounded up. Raises `StoreError`."""
        (used,) = await self.read(lambda connection: connection.execute(_SIZE).fetchone())
        return -(-int(used) // _MB)

    def time_commits(self, timed: Callable[[float], None]) -> None:
        """Call a function with the seconds that each of the writer's transactions takes."""
        self._writer.timed = timed

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run a query that sees everything written before and cannot write.

        Raises `StoreError` when the database fails, otherwise what the query raises.
        """
        result: T = await self._reader.submit(QUERIES, query)
        return result

    async def runs(self) -> frozenset[str]:
        """Return the openings of this database that live, as their sessions on the server do."""
        return await self.read(living_runs)

    def submit(self, kind: ChangeKind[Item, Result], item: Item) -> asyncio.Future[Result]:
        """Apply a change of a known kind with the writer's next transaction."""
        return self._writer.submit(kind, item)

    async def aclose(self) -> None:
        """Finish waiting work and close. Idempotent.

        A cancellation is raised once everything is closed, as for SQLite.
        """
        closing_all = asyncio.ensure_future(self._close())
        try:
            await undisturbed(closing_all)
        except asyncio.CancelledError:
            await asyncio.wait({closing_all})
            raise

    def _failed(self, failure: Exception) -> None:
        """Note a failure; if the server is away, look for it until it answers."""
        self._trouble.look(failure)
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
        await self._reader.aclose()
        await self._writer.aclose()


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
    lock, trouble = SessionLock(lease, shared=shared), _Trouble()
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
        database_id=database_id,
        run=lock.run,
        alone=lease is None and not shared,
        sessions=sessions,
        trouble=trouble,
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
