"""An installation moves from one engine to the other and back, whole."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bot.app.setup import MIGRATIONS
from bot.cli.main import main
from bot.delivery.records import MessageRecords
from bot.people.audit_log import Act, AuditLog
from queueing.core.errors import StoreError
from queueing.core.jobs import JobEvent
from queueing.core.requests import File, Output
from queueing.store import maintenance
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from queueing.store.sql.database import Connection
from tests.contracts.store.store_harness import IMAGE, NOW, add, end, new, start

SECOND = File(name="b.png", mime="image/png", data=b"\x00\xff")
Rows = Mapping[str, list[Any]]


async def fill(url: str) -> None:
    """Store a bit of everything, and delete the last job, whose number must not be reused."""
    database = await open_database(url, migrations=(MIGRATIONS,))
    store = JobStore(database)
    jobs = await asyncio.gather(*(add(store) for _ in range(600)))  # more than one page
    for job in jobs[:7]:
        done = Output(text="done", files=(IMAGE, SECOND))
        await store.apply(await start(store, job), JobEvent.COMPLETE, NOW, output=done)
    await MessageRecords(database).note("key", "value ? %s $1")
    audit = AuditLog(database)
    for number in range(3):
        await audit.write(
            Act(at=NOW, actor="ada", action="ban", subject=f"eve {number}", detail="spam")
        )
    last = await end(store, await add(store, new(owner="eve")))
    await store.acknowledge(last)
    await store.erase([last.id])
    await store.aclose()


async def contents(url: str) -> Rows:
    """Return every row of every table."""
    database = await open_database(url, migrations=(MIGRATIONS,))

    def query(connection: Connection) -> Rows:
        names = {row[0]: None for row in connection.execute(connection.statements.columns)}
        columns = connection.execute(connection.statements.columns).fetchall()
        listed = {
            name: ", ".join(f'"{column}"' for table, column, _ in columns if table == name)
            for name in names
        }
        found = {
            name: sorted(map(repr, connection.execute(f'SELECT {listed[name]} FROM "{name}"')))
            for name in names
            if name != "meta"
        }
        found["last"] = connection.execute(connection.statements.last_id).fetchall()
        return found

    try:
        return {**await database.read(query), "id": [database.id]}
    finally:
        await database.aclose()


async def copied(source: str, target: str) -> None:
    await asyncio.to_thread(maintenance.copy_database, source, target, (MIGRATIONS,))


def listed(rows: Rows) -> Mapping[str, set[str]]:
    """Return the rows without the order of columns, in which the engines differ."""
    return {table: {"".join(sorted(str(row))) for row in found} for table, found in rows.items()}


async def test_an_installation_moves_to_a_server_and_back(
    tmp_path: Path, empty_postgres_url: str
) -> None:
    """Jobs, results, people or the numbers on old buttons would be lost on the way."""
    first, last = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
    await fill(first)
    before = await contents(first)
    assert len(before["jobs"]) == 600
    assert before["last"] == [(601,)]
    await copied(first, empty_postgres_url)
    assert listed(await contents(empty_postgres_url)) == listed(before)
    database = await open_database(empty_postgres_url, migrations=(MIGRATIONS,))
    await AuditLog(database).write(
        Act(at=NOW, actor="ada", action="unban", subject="eve", detail="")
    )
    store = JobStore(database)
    assert (await add(store)).id == 602
    await store.aclose()
    between = await contents(empty_postgres_url)
    assert len(between["audit"]) == 4
    await copied(empty_postgres_url, last)
    assert listed(await contents(last)) == listed(between)
    assert await contents(first) == before


async def test_nothing_is_copied_into_what_holds_something(
    tmp_path: Path, postgres_url: str
) -> None:
    """Two installations would become one."""
    first = f"sqlite:///{tmp_path}/a.db"
    await fill(first)
    store = JobStore(await open_database(postgres_url))
    await add(store)
    await store.aclose()
    before = await contents(postgres_url)
    with pytest.raises(StoreError, match=r"not empty \(jobs, charges\): name another one"):
        await copied(first, postgres_url)
    assert await contents(postgres_url) == before


async def test_a_database_in_use_is_not_copied(tmp_path: Path, postgres_url: str) -> None:
    """What is accepted during the copy would be missing from it."""
    database = await open_database(postgres_url)
    with pytest.raises(StoreError, match="another Usher runs on this database"):
        await copied(postgres_url, f"sqlite:///{tmp_path}/a.db")
    assert not (tmp_path / "a.db").exists()
    await database.aclose()


def test_the_command_copies_and_says_how_much(
    tmp_path: Path, empty_postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The operator would not know whether all of it arrived."""
    asyncio.run(fill(f"sqlite:///{tmp_path}/a.db"))
    assert main(["db", "copy", f"{tmp_path}/a.db", empty_postgres_url]) == 0
    assert capsys.readouterr().out.startswith("jobs copied: 600, further rows: ")
    assert main(["db", "copy", f"{tmp_path}/a.db", empty_postgres_url]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main(["db", "copy", f"{tmp_path}/missing.db", empty_postgres_url]) == 2
    assert "there is no such file" in capsys.readouterr().err
