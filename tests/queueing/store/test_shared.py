"""Several processes that open one database at the same time, on a real server."""

import asyncio

import pytest

from bot.app.setup import MIGRATIONS
from queueing.core.errors import StoreError
from queueing.store.engines import open_database
from queueing.store.sql.database import Connection, Database
from tests.contracts.queue.two_processes import gone
from tests.fakes.programs.postgres_server import PostgresServer

pytest.importorskip("psycopg")


async def shared(url: str) -> Database:
    return await open_database(url, migrations=(MIGRATIONS,), shared=True)


def count(connection: Connection) -> None:
    connection.execute(
        "INSERT INTO link_ends (job_id, ends) SELECT id, 1 FROM jobs ON CONFLICT (job_id)"
        " DO UPDATE SET ends = link_ends.ends + 1"
    )


async def test_two_share_a_database_and_one_that_owns_it_is_refused(postgres_url: str) -> None:
    """A second process could not serve the API, or changing tables would be copied."""
    one, other = await shared(postgres_url), await shared(postgres_url)
    with pytest.raises(StoreError, match="another Usher runs on this database"):
        await open_database(postgres_url, migrations=(MIGRATIONS,))
    for each in (one, other):
        await each.write(count)
        await each.aclose()
    owner = await open_database(postgres_url, migrations=(MIGRATIONS,))
    with pytest.raises(StoreError, match="another Usher runs on this database"):
        await shared(postgres_url)
    await owner.aclose()


async def test_an_opening_lives_as_long_as_its_session(
    postgres_url: str, postgres: PostgresServer
) -> None:
    """The work of a killed process would seem to be taken care of forever."""
    one, other = await shared(postgres_url), await shared(postgres_url)
    assert one.run != other.run
    assert await one.runs() == await other.runs() == {one.run, other.run}
    postgres.sql(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory'"
        f" AND objid = {other.run}"
    )
    await gone(other.run, one)
    assert await one.runs() == {one.run}
    await other.write(count)  # its next session says so again
    assert await one.runs() == {one.run, other.run}
    await other.aclose()
    await one.aclose()
    last = await shared(postgres_url)
    await gone(one.run, last)
    await gone(other.run, last)
    assert await last.runs() == {last.run}
    await last.aclose()


async def test_what_another_transaction_made_or_deleted_is_no_failure(postgres_url: str) -> None:
    """Of two processes that insert the same row, one would fail."""
    databases = [await shared(postgres_url) for _ in range(2)]

    async def note(database: Database) -> None:
        def change(connection: Connection) -> None:
            row = connection.execute("SELECT value FROM notes WHERE name = 'n'").fetchone()
            if row is None:
                connection.execute("INSERT INTO notes (name, value) VALUES ('n', '')")
                connection.execute("SELECT 1").fetchone()

        await database.write(change)

    for _ in range(20):
        await databases[0].write(lambda c: c.execute("DELETE FROM notes WHERE name = 'n'"))
        await asyncio.gather(*(note(each) for each in databases))
    for each in databases:
        await each.aclose()
