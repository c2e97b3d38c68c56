"""A process that has lost its role writes nothing more, on a real server."""

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from typing import Any

import pytest

from queueing.core.errors import Fenced, StoreError
from queueing.core.leases import Lease
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from queueing.store.sql.database import Connection, Database
from tests.contracts.store.store_harness import add, new, start
from tests.fakes.programs.postgres_server import (
    PostgresServer,
    binaries,
    end_leases,
    running_server,
)

pytest.importorskip("psycopg")

import psycopg  # an extra

from queueing.store.postgres import lease_session  # an extra
from queueing.store.postgres import lease_store as posts_module  # an extra
from queueing.store.postgres.lease_store import PostgresLeases  # an extra
from queueing.store.postgres.session import (
    connect,  # an extra
    read_address,  # an extra
)

LONG_S = 600.0
DAY_S = 24 * 3600.0
SILENCE = "idle_in_transaction_session_timeout"
AT_ONCE_MS = 50
FAIL_AT_COMMIT = (
    "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not today'; END $$",
    (
        "CREATE CONSTRAINT TRIGGER fails AFTER UPDATE ON roles"
        " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail()"
    ),
)


def write(connection: Connection) -> None:
    connection.execute(
        "INSERT INTO meta (key, value) VALUES ('test', '') ON CONFLICT (key) DO NOTHING"
    )


def written(connection: Connection) -> bool:
    row = connection.execute("SELECT value FROM meta WHERE key = 'test'").fetchone()
    connection.execute("SELECT 1").fetchone()
    return row is not None


@asynccontextmanager
async def roles_of(
    url: str, *processes: str, lease_s: float = LONG_S
) -> AsyncIterator[list[PostgresLeases]]:
    async with AsyncExitStack() as stack:
        made = [PostgresLeases(url, process=each, lease_s=lease_s) for each in processes]
        for each in made:
            stack.push_async_callback(each.aclose)
        yield made


async def take(roles: PostgresLeases) -> Lease:
    """Take a role that is free."""
    lease = await roles.take("queue", address="")
    assert lease is not None
    return lease


async def take_soon(roles: PostgresLeases) -> Lease:
    """Take a role as soon as it is free."""
    async with asyncio.timeout(60):
        while (lease := await roles.take("queue", address="")) is None:
            await roles.freed(0.05)
    return lease


async def opened(url: str, lease: Lease) -> Database:
    return await open_database(url, lease=lease)


@pytest.fixture
def clean(postgres_url: str, postgres: PostgresServer) -> str:
    postgres.sql("DELETE FROM meta WHERE key = 'test'", database=postgres_url.rpartition("/")[2])
    return postgres_url


async def test_nothing_is_written_under_an_old_epoch(clean: str) -> None:
    """A frozen scheduler that wakes up would start jobs that another has finished."""
    async with roles_of(clean, "ada", "eve") as (ada, eve):
        first = await take(ada)
        old = await opened(clean, first)
        await ada.free(first)
        second = await take(eve)
        new = await opened(clean, second)
        many = [old.write(write) for _ in range(5)]
        assert all(
            isinstance(each, Fenced) for each in await asyncio.gather(*many, return_exceptions=True)
        )
        assert not await new.read(written)
        await new.write(write)
        assert await old.read(written)  # reading is still allowed
        for each in (old, new):
            await each.aclose()


async def test_numbers_and_keys_that_another_gave_are_no_failure_of_the_database(
    clean: str,
) -> None:
    """A scheduler that wakes up uses numbers and keys that are taken by now."""
    async with roles_of(clean, "ada", "eve") as (ada, eve):
        first = await take(ada)
        old = JobStore(await opened(clean, first))
        before = await add(old)
        await ada.free(first)
        second = await take(eve)
        store = JobStore(await opened(clean, second))
        asked = [new() for _ in range(3)]
        accepted = [await add(store, each) for each in asked]
        with pytest.raises(Fenced):
            await add(old)
        late = [add(old, each) for each in (asked[1], new(), asked[0])]
        late.append(start(old, before))
        found = await asyncio.gather(*late, return_exceptions=True)
        assert [type(each) for each in found] == [Fenced] * len(late)
        assert [job.id for job in await store.open_jobs()] == [
            before.id,
            *(job.id for job in accepted),
        ]
        for each in (old, store):
            await each.aclose()


async def test_a_post_is_not_taken_between_the_fence_and_the_commit(clean: str) -> None:
    """A change would become durable after the next holder has read its state."""
    async with roles_of(clean, "ada", "eve") as (ada, eve):
        first = await take(ada)
        database = await opened(clean, first)
        end_leases(clean)
        inside, looked = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        def slow(connection: Connection) -> None:
            written(connection)  # the fence has been passed
            loop.call_soon_threadsafe(inside.set)
            assert looked.wait(60)
            write(connection)

        writing = asyncio.ensure_future(database.write(slow))
        await inside.wait()
        assert await eve.take("queue", address="") is None
        looked.set()
        await writing
        assert await eve.take("queue", address="") is not None
        with pytest.raises(Fenced):
            await database.write(write)
        await database.aclose()


async def test_a_holder_frozen_within_a_transaction_keeps_the_next_one_out_no_longer_than_its_lease(
    clean: str,
) -> None:
    """Its session locks the role's row: the queue would be blocked for half a minute."""
    async with roles_of(clean, "ada", "eve", lease_s=61.0) as (ada, eve):
        first = await take(ada)
        database = await opened(clean, first)
        end_leases(clean)
        inside, thawed = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()
        settings = list[str]()

        def frozen(connection: Connection) -> None:
            row = connection.execute(f"SELECT current_setting('{SILENCE}')").fetchone()
            settings.append("" if row is None else row[0])
            connection.execute(f"SET {SILENCE} = {AT_ONCE_MS}").fetchone()
            loop.call_soon_threadsafe(inside.set)
            assert thawed.wait(60)
            write(connection)

        writing = asyncio.ensure_future(database.write(frozen))
        await inside.wait()
        assert settings == ["61s"]
        await take_soon(eve)
        thawed.set()
        with pytest.raises(Fenced):
            await writing
        await database.aclose()


async def test_a_holder_frozen_between_statements_sent_together_keeps_no_one_out(
    clean: str,
) -> None:
    """The server regards such a session as active: its role would be held until it wakes up."""
    async with roles_of(clean, "ada", "eve") as (ada, eve):
        assert await ada.take("queue", address="") is not None
        end_leases(clean)
        with (
            closing(connect(read_address(clean))) as frozen,
            suppress(psycopg.OperationalError),
            frozen.pipeline(),
        ):
            frozen.execute("BEGIN")
            assert frozen.execute("SELECT 1 FROM roles FOR UPDATE").fetchone() is not None
            second = await take_soon(eve)
            await eve.free(second)
            frozen.execute("COMMIT").fetchone()
            pytest.fail("its session goes on")


async def test_a_post_whose_holders_session_ends_is_free_at_once(clean: str) -> None:
    """After a crash no process would perform the duty until the lease ends."""
    async with roles_of(clean, "ada", "eve") as (ada, eve):
        assert await ada.take("queue", address="") is not None
        assert await eve.take("queue", address="") is None
        await ada.aclose()
        second = await take_soon(eve)
        assert second.epoch == 2
        assert (await eve.holders())[0].left_s > LONG_S / 2


async def test_a_holder_that_is_only_cut_off_from_the_server_keeps_its_post_until_its_lease_is_over(
    clean: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two would listen to Telegram, as it cannot notice that the server has ended its session."""
    monkeypatch.setattr(lease_session, "COMES_BACK_S", 0.0)
    monkeypatch.setattr(lease_session, "CALL_EVERY_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        async with roles_of(clean, "ada", "eve") as (ada, eve):
            assert await ada.take("queue", address=address) is not None
            break_off(clean, ada)
            for _ in range(5):
                assert await eve.take("queue", address="127.0.0.1:1") is None
            listening.close()
            assert await eve.take("queue", address="127.0.0.1:1") is not None


async def test_a_process_takes_the_post_of_its_predecessor_at_the_same_address_at_once(
    clean: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash and a restart it would find itself listening there, and wait for a lease."""
    monkeypatch.setattr(lease_session, "COMES_BACK_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        async with roles_of(clean, "ada", "eve") as (ada, eve):
            assert await ada.take("queue", address=address) is not None
            break_off(clean, ada)
            assert await eve.take("queue", address=address) is not None


def break_off(url: str, roles: PostgresLeases) -> None:
    """End the session of a process's roles."""
    assert roles._session is not None
    pid = roles._session.plain.info.backend_pid
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(%s, 60000)", [pid])


async def test_a_post_is_left_for_a_moment_to_a_holder_whose_session_broke(clean: str) -> None:
    """It lives and still listens: until it notices, two would listen."""
    async with roles_of(clean, "ada", "eve") as (ada, eve):
        first = await take(ada)
        assert ada.intact(first)
        break_off(clean, ada)
        assert await eve.take("queue", address="") is None
        async with asyncio.timeout(60):
            while ada.intact(first):
                await eve.freed(0.02)
        assert await ada.renew(first)
        assert ada.intact(first)
        for _ in range(10):
            assert await eve.take("queue", address="") is None
            await eve.freed(0.1)


async def test_a_post_given_up_while_the_server_is_away_is_free_when_it_is_back(
    clean: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each restart of the server a chat would be silent until its old lease is over."""

    def away() -> None:
        raise psycopg.OperationalError("connection refused")

    async with roles_of(clean, "ada", "eve") as (ada, eve):
        first = await take(ada)
        break_off(clean, ada)
        with monkeypatch.context() as patched:
            patched.setattr(ada, "_begin", away)
            with pytest.raises(StoreError):
                await ada.free(first)
        await ada.holders()  # over a new session
        await take_soon(eve)


async def test_a_new_session_proves_nothing_about_a_post_until_it_is_renewed(clean: str) -> None:
    """A holder would regard another's role as its own because its old lock is free."""
    async with roles_of(clean, "ada", "eve") as (ada, eve):
        first = await take(ada)
        break_off(clean, ada)
        await take_soon(eve)
        await ada.holders()  # over a new session
        assert not ada.intact(first)
        assert not await ada.renew(first)


async def test_a_thawed_holder_does_not_rob_its_successor(
    clean: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its old lock would be mistaken for the end of the new holder's session."""
    monkeypatch.setattr(lease_session, "COMES_BACK_S", 0.0)
    async with roles_of(clean, "ada", "eve", "eve") as (ada, eve, successor):
        assert await ada.take("queue", address="") is not None
        end_leases(clean)
        second = await take(successor)
        for _ in range(5):
            assert await ada.take("queue", address="") is None
            assert await eve.take("queue", address="") is None
        assert await successor.renew(second)


async def test_a_free_post_is_heard_of(clean: str) -> None:
    """A stand-by would look for it ten times a second."""
    async with roles_of(clean, "ada", "eve") as (ada, eve):
        first = await take(ada)
        waiting = asyncio.ensure_future(eve.freed(LONG_S))
        while not waiting.done():  # until its session listens
            await ada.free(first)
            await ada.freed(0.2)
            first = await take(ada)


async def test_posts_come_back_with_the_server(clean: str, postgres: PostgresServer) -> None:
    """A restart of the server would end the cluster."""
    async with roles_of(clean, "ada") as (ada,):
        first = await take(ada)
        postgres.stop("immediate")
        postgres.start()
        assert await ada.renew(first)
        assert (await ada.holders())[0].epoch == 1


async def test_two_processes_that_start_together_make_the_tables_once(
    empty_postgres_url: str,
) -> None:
    """The slower one would fail with "relation already exists"."""
    from queueing.store.postgres.database import migrate_postgres  # noqa: PLC0415  # an extra

    await asyncio.gather(*(migrate_postgres(empty_postgres_url) for _ in range(4)))
    async with roles_of(empty_postgres_url, "ada") as (ada,):
        assert await ada.holders() == []


# ------------------------------------------------------------ several roles of one process


def hold_row(url: str, name: str) -> psycopg.Connection[Any]:
    """Lock the row of a role, like a transaction that its process has not ended."""
    frozen = psycopg.connect(url)
    frozen.execute("SELECT 1 FROM roles WHERE name = %s FOR UPDATE", [name])
    return frozen


async def test_a_frozen_holder_delays_no_other_post(postgres_url: str) -> None:
    """While one role is awaited, the leases of all others would end."""
    async with roles_of(postgres_url, "ada", "eve") as (ada, eve), asyncio.timeout(60):
        assert await ada.take("queue", address="") is not None
        web = await eve.take("web", address="")
        assert web is not None
        end_leases(postgres_url)
        with hold_row(postgres_url, "queue"):
            taken = asyncio.create_task(eve.take("queue", address=""))
            assert await eve.renew(web)
            assert await taken is None
        assert await eve.take("queue", address="") is not None


async def test_a_renewal_that_is_in_the_way_costs_no_other_post(postgres_url: str) -> None:
    """A process would lose all its roles because one transaction takes long."""
    async with roles_of(postgres_url, "ada", "eve") as (ada, eve), asyncio.timeout(60):
        held = [await ada.take(name, address="") for name in ("queue", "web")]
        assert held[0] is not None
        assert ada._session is not None
        assert ada._session.plain.execute("SHOW lock_timeout").fetchone() == ("1min",)
        ada._session.plain.execute(f"SET lock_timeout = {AT_ONCE_MS}")
        with hold_row(postgres_url, "queue"):
            with pytest.raises(StoreError):
                await ada.renew(held[0])
            assert await eve.take("web", address="") is None
        assert await ada.renew(held[0])


@pytest.mark.parametrize("call", ["holders", "freed"])
async def test_a_session_that_begins_while_the_posts_are_closed_is_closed_too(
    clean: str, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Each would occupy one of the server's few connections until it is found by chance."""
    made, asked, goes_on = list[Any](), threading.Event(), threading.Event()

    def slow(address: Any) -> Any:
        asked.set()
        goes_on.wait(60)
        made.append(connect(address))
        return made[-1]

    monkeypatch.setattr(posts_module, "connect", slow)
    roles = PostgresLeases(clean, process="ada", lease_s=LONG_S)
    calling = asyncio.ensure_future(roles.holders() if call == "holders" else roles.freed(LONG_S))
    await asyncio.to_thread(asked.wait, 60)
    await roles.aclose()
    goes_on.set()
    await asyncio.wait([calling])
    assert [each.closed for each in made] == [True]


async def test_all_who_wait_are_told_of_a_free_post(postgres_url: str) -> None:
    """A process that applies for several roles would learn of most of them later."""
    async with roles_of(postgres_url, "ada", "eve") as (ada, eve), asyncio.timeout(60):
        waiting = [asyncio.create_task(eve.freed(LONG_S)) for _ in range(3)]
        while not all(each.done() for each in waiting):  # eve may not hear at once
            lease = await take(ada)
            await ada.free(lease)


async def test_posts_applied_for_together_are_looked_at_together(postgres_url: str) -> None:
    """A stand-by would ask the server for each of its roles separately, four times a second."""
    names = [f"discord:{number}" for number in range(8)]
    async with roles_of(postgres_url, "ada", "eve") as (ada, eve), asyncio.timeout(60):
        for each in (ada, eve):
            taken = await asyncio.gather(*(each.take(name, address="") for name in names))
            assert [lease.name for lease in taken if lease] == (names if each is ada else [])
        assert {each.epoch for each in await eve.holders()} == {1}


async def test_a_database_that_has_gone_back_fences_its_holder_and_is_reported(
    clean: str, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A stand-by without the last commits would have a leader of which it knows nothing."""
    async with roles_of(clean, "ada", "eve") as (ada, eve):
        for _ in range(3):
            lease = await take(ada)
            await ada.free(lease)
        lease = await take(ada)
        assert await eve.take("queue", address="") is None
        database = await opened(clean, lease)
        await database.write(write)
        set_back = "UPDATE roles SET epoch = 2, holder = '', until = 0 WHERE name = 'queue'"
        postgres.sql(set_back, database=clean.rpartition("/")[2])
        with pytest.raises(Fenced):
            await database.write(write)
        assert not await ada.renew(lease)
        told = "gone back in time: it has epoch 2 of the role queue, and had epoch 4 before"
        assert [told in line for line in caplog.messages] == [True]
        assert await eve.take("queue", address="") is not None  # a stand-by notices as well
        assert [told in line for line in caplog.messages] == [True, True]
        await database.aclose()


async def test_a_post_whose_taking_failed_is_no_sign_of_a_database_that_went_back(
    clean: str, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """After a server restarts in the middle, its operator would look for lost jobs."""
    database = clean.rpartition("/")[2]
    async with roles_of(clean, "ada", "eve") as (ada, eve):
        postgres.sql(*FAIL_AT_COMMIT, database=database)
        try:
            for _ in range(2):
                with pytest.raises(StoreError):
                    await ada.take("queue", address="")
        finally:
            postgres.sql("DROP FUNCTION fail CASCADE", database=database)
        lease = await take(eve)
        assert eve.intact(lease)  # the lock of its epoch is not kept by the one that failed
    assert not [line for line in caplog.messages if "gone back in time" in line]


async def test_an_epoch_that_comes_twice_is_its_second_holders_alone(
    clean: str, postgres: PostgresServer
) -> None:
    """After the database has gone back, a frozen leader and its successor have one number."""
    async with roles_of(clean, "ada", "eve") as (ada, eve):
        first = await take(ada)
        old = await opened(clean, first)
        set_back = "UPDATE roles SET epoch = 0, holder = '', until = 0 WHERE name = 'queue'"
        postgres.sql(set_back, database=clean.rpartition("/")[2])
        second = await take_soon(eve)
        assert (second.epoch, second.secret != first.secret) == (first.epoch, True)
        with pytest.raises(Fenced):
            await old.write(write)
        assert not await ada.renew(first)
        await ada.free(first)
        assert await eve.renew(second)
        await old.aclose()


# ------------------------------------------------------------ a clock that is wrong


async def test_a_process_whose_clock_is_wrong_holds_no_post(
    clean: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A stand-by ten days ahead would delete every result as it takes over."""
    monkeypatch.setattr(lease_session, "COMPARE_EVERY_S", 0.0)
    off, now, noted = [0.0], time.time, list[float]()
    monkeypatch.setattr(time, "time", lambda: now() + off[0])
    roles = PostgresLeases(clean, process="ada", lease_s=LONG_S, compared=noted.append)
    for off[0] in (10 * DAY_S, -61.0):
        assert await roles.take("queue", address="") is None
    assert "864000 s ahead of the database server's" in caplog.text
    off[0] = 30.0
    lease = await take(roles)
    assert await roles.renew(lease)
    off[0] = 3600.0
    assert not await roles.renew(lease)
    assert [round(each) for each in noted] == [-864000, 61, -30, -30, -3600]
    await roles.aclose()


# ------------------------------------------------------------ a database that has gone back


GO_BACK = (
    "SET session_replication_role = replica",  # no trigger sees it, as if it had never been
    "DELETE FROM jobs WHERE id > 2",
    "UPDATE roles SET written = 2 WHERE name = 'queue'",
)


@pytest.mark.parametrize("epoch_lost", [False, True], ids=["same-epoch", "older-epoch"])
async def test_no_number_is_given_out_twice_by_a_database_that_has_gone_back(
    clean: str, postgres: PostgresServer, *, epoch_lost: bool
) -> None:
    """A person would be sent the result of another person, who has the same number."""
    name = clean.rpartition("/")[2]
    async with roles_of(clean, "ada", "eve") as (ada, eve):
        before = await take(ada)
        await ada.free(before)
        first = await take(ada)
        database = await opened(clean, first)
        store = JobStore(database)
        used = [(await add(store)).id for _ in range(6)]
        assert used == [1, 2, 3, 4, 5, 6]
        assert await eve.take("queue", address="") is None
        postgres.sql(*GO_BACK, database=name)
        with pytest.raises(Fenced, match="gone back in time"):
            await add(store)
        if epoch_lost:
            postgres.sql("UPDATE roles SET epoch = 1, holder = '', until = 0", database=name)
        await ada.free(first, in_order=False)
        second = await take(eve)
        successor = JobStore(other := await opened(clean, second))
        assert (await add(successor)).id > max(used)
        for each in (database, other):
            await each.aclose()


async def test_numbers_go_on_after_a_holder_that_stopped_in_order(clean: str) -> None:
    """Each restart would skip a thousand numbers that people read."""
    async with roles_of(clean, "ada", "eve") as (ada, eve):
        for number, roles in enumerate((ada, eve, ada), start=1):
            lease = await take(roles)
            database = await opened(clean, lease)
            assert (await add(JobStore(database))).id == number
            await database.aclose()
            await roles.free(lease)


async def test_a_holder_that_writes_nothing_notices_that_the_database_has_gone_back(
    clean: str, postgres: PostgresServer
) -> None:
    """Jobs that it regards as ended would be open in the database, and wait for a restart."""
    async with roles_of(clean, "ada") as (ada,):
        lease = await take(ada)
        database = await opened(clean, lease)
        for _ in range(3):
            await database.write(write)
        watching = asyncio.ensure_future(database.fenced())
        await database.read(written)
        assert not watching.done()
        postgres.sql("UPDATE roles SET written = 2", database=clean.rpartition("/")[2])
        with pytest.raises(Fenced, match="gone back in time"):
            await asyncio.wait_for(watching, 60)
        await database.aclose()


@pytest.mark.thorough
async def test_a_promoted_replica_without_the_last_commits_fences_the_living_leader(
    clean: str,
) -> None:
    """The leader continues in its own epoch, and knows more than the promoted replica."""
    programs = binaries()
    assert programs is not None
    with running_server(programs, "fsync=on") as primary:
        url = primary.url(primary.database())
        async with roles_of(url, "ada", "eve") as (ada, eve):
            await (await open_database(url, shared=True)).aclose()  # makes the tables
            first = await take(ada)
            database = await opened(url, first)
            store = JobStore(database)
            kept = [await add(store) for _ in range(2)]
            replica = primary.replica()
            try:
                lost = [await add(store) for _ in range(3)]
                primary.stop("immediate")
                replica.promote(primary.port)
                with pytest.raises(Fenced, match="gone back in time"):
                    await asyncio.wait_for(database.fenced(), 60)
                with pytest.raises(Fenced, match="gone back in time"):
                    await add(store)
                assert await ada.renew(first)  # its term is known there
                await ada.free(first, in_order=False)
                second = await take(eve)
                successor = JobStore(other := await opened(url, second))
                assert [job.id for job in await successor.open_jobs()] == [job.id for job in kept]
                assert (await add(successor)).id > max(job.id for job in lost)
                await other.aclose()
                await database.aclose()
            finally:
                replica.stop("immediate")
