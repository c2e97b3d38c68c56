"""A server that goes away, fills up or blocks: nothing is lost, and work continues by itself."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from bot.app.setup import MIGRATIONS
from queueing.core.errors import NotAccepting, StoreError
from queueing.core.jobs import Job, JobEvent, JobState
from queueing.core.requests import Output
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from queueing.store.postgres import database as database_module
from queueing.store.postgres import session, transactions
from queueing.store.postgres.connection import PostgresConnection, PostgresCursor
from queueing.store.postgres.database import PostgresDatabase
from queueing.store.sql.database import Connection, DatabaseAway
from tests.contracts.store.store_harness import NO_LIMITS, NOW, add, end, heads, new, start
from tests.fakes.programs.postgres_server import (
    NOT_INSTALLED,
    PostgresServer,
    binaries,
    running_server,
)


@pytest.fixture(scope="module")
def own() -> Iterator[PostgresServer]:
    """Return a server used only by these tests, to be stopped and started."""
    programs = binaries()
    if programs is None:
        pytest.skip(NOT_INSTALLED)
    with running_server(programs) as server:
        yield server


@pytest.fixture
async def database(own: PostgresServer) -> AsyncIterator[PostgresDatabase]:
    opened = await open_database(own.url(own.database()), migrations=(MIGRATIONS,))
    assert isinstance(opened, PostgresDatabase)
    yield opened
    await opened.aclose()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "PATIENCE_S", 0.1)
    monkeypatch.setattr(database_module, "_LOOK_EVERY_S", 0.1)


@pytest.mark.usefixtures("impatient")
async def test_accepting_stops_with_its_sentence_and_goes_on_by_itself(
    own: PostgresServer, database: PostgresDatabase
) -> None:
    """People would wait for an answer, or the operator have to start the bot again."""
    store = JobStore(database)
    running = await start(store, await add(store))
    own.stop("immediate")
    try:
        for _ in range(2):
            with pytest.raises(NotAccepting, match="the database server does not answer"):
                await add(store)
        with pytest.raises(DatabaseAway):
            await store.get(running.id)
        with pytest.raises(DatabaseAway):
            await store.apply(running, JobEvent.COMPLETE, NOW, output=Output())
        assert "does not answer" in str(database.damage)
    finally:
        own.start()
    assert database._looking is not None
    await database._looking  # for the server, by itself
    assert database.damage is None
    after = await store.apply(running, JobEvent.COMPLETE, NOW, output=Output())
    assert after.job.state is JobState.COMPLETED
    assert (await add(store)).id == 2
    assert database.look_at_file() is None


@pytest.mark.parametrize("restarts", [1, pytest.param(3, marks=pytest.mark.thorough)])
async def test_restarts_in_the_middle_of_the_work_lose_nothing(
    own: PostgresServer, database: PostgresDatabase, restarts: int
) -> None:
    """What was acknowledged just before would be lost, or be done twice."""
    store = JobStore(database)
    told: dict[int, Job] = {}
    stopped = asyncio.Event()
    lived: asyncio.Queue[int] = asyncio.Queue()

    async def caller() -> None:
        while not stopped.is_set():
            job = told.setdefault((made := await add(store)).id, made)
            for event in (JobEvent.START, JobEvent.COMPLETE):
                output = Output(text=str(job.id)) if event is JobEvent.COMPLETE else None
                told[job.id] = job = (await store.apply(job, event, NOW, output=output)).job
            lived.put_nowait(job.id)

    async with asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(caller())
        for _ in range(restarts):
            for _ in range(50):
                await lived.get()
            await asyncio.to_thread(own.stop, "immediate")
            await asyncio.to_thread(own.start)
        stopped.set()
    for job in told.values():
        assert await store.get(job.id) == job
    assert await store.open_jobs() == []
    assert len(await store.history("ada", limit=10**6)) == len(told)
    assert (await add(store)).id == len(told) + 1


@pytest.mark.usefixtures("impatient")
async def test_a_server_that_is_frozen_is_hung_up_on(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No time-out of the network ends a wait for a frozen process."""
    store = JobStore(database)
    running = await start(store, await add(store))
    pids = await database.write(lambda c: c.execute("SELECT pg_backend_pid()").fetchone())
    monkeypatch.setattr(transactions, "MUTE_S", 0.2)
    os.kill(pids[0], signal.SIGSTOP)
    try:
        with pytest.raises(NotAccepting, match="has not ended the lost session"):
            await add(store)
    finally:
        os.kill(pids[0], signal.SIGCONT)
    assert database._looking is not None
    await database._looking
    after = await store.apply(running, JobEvent.COMPLETE, NOW, output=Output())
    assert after.job.state is JobState.COMPLETED
    assert (await add(store)).id == 2


@pytest.mark.parametrize("arrived", [True, False])
async def test_a_commit_without_an_answer_happens_once(
    arrived: bool, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeated commit would make a job twice; a forgotten one would hide the job."""
    store = JobStore(database)
    await add(store)
    cut = iter([True])
    execute, expect = PostgresConnection.execute, transactions._expect_commit

    def cut_before(self: PostgresConnection, sql: str, *values: object) -> object:
        if sql == "COMMIT" and next(cut, False):
            self._plain.close()
        return execute(self, sql, *values)  # type: ignore[arg-type]  # as they came

    def cut_after(committing: PostgresCursor) -> None:
        expect(committing)
        if next(cut, False):
            raise psycopg.OperationalError("the connection was cut")

    if arrived:
        monkeypatch.setattr(transactions, "_expect_commit", cut_after)
    else:
        monkeypatch.setattr(PostgresConnection, "execute", cut_before)
    job = await add(store, again := new())
    assert next(cut, None) is None, "the connection was cut"
    assert await store.find(again.key) == job
    assert await heads(store) == [1, 2]
    assert await store.positions([1, 2]) == {1: 1, 2: 2}
    assert (await end(store, job)).state is JobState.COMPLETED


async def test_a_full_disk_is_told_as_one(own: PostgresServer, database: PostgresDatabase) -> None:
    """The sentence would say that something is broken which only needs space."""
    store = JobStore(database)
    running = await start(store, await add(store))
    name = _name(database)
    own.sql(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$",
        "CREATE TRIGGER full_disk BEFORE INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION full_disk()",
        database=name,
    )
    with pytest.raises(NotAccepting, match="the database server's disk is full") as caught:
        await add(store)
    assert caught.value.full_disk
    assert (await store.apply(running, JobEvent.COMPLETE, NOW, output=Output())).entered is None
    own.sql("DROP TRIGGER full_disk ON jobs", database=name)
    assert (await add(store)).id == 2


@pytest.mark.parametrize("code", ["40001", "40P01", "55P03"])
async def test_a_transaction_in_the_way_is_waited_for(
    code: str, own: PostgresServer, database: PostgresDatabase
) -> None:
    """Two transactions that met would cost one of their callers its change."""
    store = JobStore(database)
    own.sql(
        "CREATE SEQUENCE met",
        "CREATE FUNCTION meet() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN IF nextval('met') < 3 THEN RAISE EXCEPTION 'met' USING ERRCODE = '{code}';"
        " END IF; RETURN NEW; END $$",
        "CREATE TRIGGER meet BEFORE INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION meet()",
        database=_name(database),
    )
    assert (await add(store)).id == 1
    assert (await store.history("ada", limit=9))[0].id == 1


async def test_tables_that_gain_a_column_meanwhile_stop_nothing(
    own: PostgresServer, database: PostgresDatabase
) -> None:
    """A newer process would stop this one by migrating while it still runs."""
    store = JobStore(database)
    for _ in range(8):  # statements are prepared after some uses
        await end(store, await add(store))
    own.sql("ALTER TABLE jobs ADD COLUMN newer text", database=_name(database))
    assert (await end(store, await add(store))).id == 9
    assert len(await store.history("ada", limit=99)) == 9


async def test_what_one_change_raises_undoes_it_alone(database: PostgresDatabase) -> None:
    """Changes that wait together share a transaction, but must not share their failures."""
    store = JobStore(database)

    def fails(connection: object) -> None:
        assert isinstance(connection, PostgresConnection)
        connection.execute("INSERT INTO notes (name, value) VALUES ('half', 'done')")
        raise LookupError("changed my mind")

    outcomes = await asyncio.gather(
        store.add(new(), NOW, limits=NO_LIMITS),
        database.write(fails),
        database.write(lambda connection: connection.execute("SELECT nonsense").fetchall()),
        store.add(new(), NOW, limits=NO_LIMITS),
        return_exceptions=True,
    )
    assert [type(each) for each in outcomes] == [
        Job,
        LookupError,
        psycopg.errors.UndefinedColumn,
        Job,
    ]
    assert await database.read(lambda c: c.execute("SELECT * FROM notes").fetchall()) == []
    assert len(await store.open_jobs()) == 2


async def test_a_change_that_is_refused_shares_its_transaction(database: PostgresDatabase) -> None:
    """People who ask for too much would make everyone else's changes wait, one by one."""
    number = "SELECT pg_current_xact_id()::text"

    def refused(connection: Connection) -> None:
        connection.execute("INSERT INTO notes (name, value) VALUES ('half', 'done')")
        raise LookupError

    def fine(connection: Connection) -> str:
        return str(connection.execute(number).fetchone()[0])

    outcomes = await asyncio.gather(
        *(database.write(each) for each in (fine, refused, fine)), return_exceptions=True
    )
    assert isinstance(outcomes[1], LookupError)
    assert outcomes[0] == outcomes[2]
    kept = await database.read(lambda c: c.execute("SELECT name FROM notes").fetchall())
    assert kept == []


async def test_reading_cannot_write(database: PostgresDatabase) -> None:
    """A query that changes something would do so without the writer's fence."""
    with pytest.raises(StoreError, match="is read-only"):
        await database.read(lambda c: c.execute("DELETE FROM jobs").rowcount)


async def test_another_database_in_its_place_is_noticed(
    own: PostgresServer, database: PostgresDatabase
) -> None:
    """What is accepted into a restored backup would be lost, or known to no one."""
    store = JobStore(database)
    await add(store)
    own.sql(
        "UPDATE meta SET value = gen_random_uuid()::text WHERE key = 'database_id'",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'usher'",
        database=_name(database),
    )
    with pytest.raises(StoreError, match="came back with another database"):
        await add(store)
    with pytest.raises(NotAccepting, match="came back with another database"):
        await add(store)


def _name(database: PostgresDatabase) -> str:
    return str(database._session._address.options["dbname"])
