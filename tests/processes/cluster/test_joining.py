"""A process that does not fit the others on its database ends with a message, changing nothing."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.app.heartbeat import is_alive
from tests.fakes.fork_server import Child, start_usher
from tests.fakes.programs.postgres_server import PostgresServer
from tests.processes.installation import until

pytest.importorskip("psycopg")

CONFIG = """
database: {database}
hosts: {{gpu: {{vram: 24GB, backends: {{studio: {{kind: demo}}}}}}}}
models: {{flux: {{backends: [studio], vram: 8GB}}, sdxl: {{backends: [studio]}}}}
chats: {{web: {{port: 0}}}}
"""
POSTS = [("queue",), ("web",)]  # of a process with that configuration, taken one by one
ENDS_S = 180.0


def configured(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "config.yaml"
    file.write_text(text, encoding="utf-8")
    return file


@asynccontextmanager
async def started(folder: Path, text: str) -> AsyncIterator[Child]:
    """Start `usher run`; end it if it still runs."""
    file = configured(folder, text)
    process = await start_usher(("run", "-c", str(file)), folder / "log.txt")
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()


def told(folder: Path) -> list[str]:
    """Return what processes of a folder have printed."""
    log = folder / "log.txt"
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


async def refused(folder: Path, text: str) -> str:
    """Return the one sentence with which a process ends, which must be due to its configuration."""
    before = len(told(folder))
    async with started(folder, text) as process, asyncio.timeout(ENDS_S):
        assert await process.wait() == 1
    (sentence,) = told(folder)[before:]
    return sentence


def rows(postgres: PostgresServer, name: str) -> object:
    """Return what must not change: the roles except their leases, and the jobs."""
    return [
        postgres.sql("SELECT name, holder, epoch, about FROM roles ORDER BY name", database=name),
        postgres.sql("SELECT * FROM jobs ORDER BY id", database=name),
        postgres.sql("SELECT * FROM meta ORDER BY key", database=name),
    ]


async def test_another_configuration_is_named_and_the_leader_goes_on(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """The next leader would plan with other models, and no one could tell why."""
    name = postgres.database()
    text = CONFIG.format(database=postgres.url(name))
    async with started(tmp_path / "one", text) as leader:
        await until(lambda: _leads(postgres, name), within_s=ENDS_S)
        before = rows(postgres, name)
        sentence = await refused(tmp_path / "two", text.replace("8GB", "9GB"))
        assert f":{leader.pid}:" in sentence
        assert "has another configuration: models.flux.vram differs; give all processes" in sentence
        assert rows(postgres, name) == before
        assert is_alive(tmp_path / "one" / "usher.postgresql")
        async with started(tmp_path / "two", text) as second:  # the same stands by
            await until(lambda: is_alive(tmp_path / "two" / "usher.postgresql"), within_s=ENDS_S)
            assert second.returncode is None


async def _leads(postgres: PostgresServer, name: str) -> bool:
    tables = postgres.sql("SELECT to_regclass('roles') IS NOT NULL", database=name)
    if tables != [(True,)]:
        return False
    held = "SELECT name FROM roles WHERE holder <> '' ORDER BY name"
    return postgres.sql(held, database=name) == POSTS


async def test_a_model_with_open_jobs_must_be_there(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """Its jobs would wait on every machine, and no server would ever be asked."""
    name = postgres.database()
    text = CONFIG.format(database=postgres.url(name))
    async with started(tmp_path / "one", text):
        await until(lambda: _leads(postgres, name), within_s=ENDS_S)
    _wait_for(postgres, name, "sdxl")
    before = rows(postgres, name)
    sentence = await refused(tmp_path / "one", text.replace(", sdxl: {backends: [studio]}", ""))
    assert "models that the configuration lacks (2 for sdxl); add the models again" in sentence
    assert rows(postgres, name) == before


def _wait_for(postgres: PostgresServer, name: str, model: str) -> None:
    """Store two waiting jobs, as an earlier configuration left them."""
    for number in (1, 2):
        postgres.sql(
            "INSERT INTO jobs (id, model, lane, seq, state, not_before, queued_at, owner, key,"
            f" reply_to, request) VALUES ({number}, '{model}', 'normal', {number}, 'pending', 0, 0,"
            f" 'web:ada', 'key {number}', '', '{{}}')",
            database=name,
        )


async def test_of_two_that_start_at_once_one_ends(tmp_path: Path, postgres: PostgresServer) -> None:
    """Neither sees the other before it applies; the one on stand-by would lead one day."""
    text = CONFIG.format(database=postgres.url(postgres.database()))
    async with (
        started(tmp_path / "one", text) as one,
        started(tmp_path / "two", text.replace("8GB", "9GB")) as two,
        asyncio.timeout(ENDS_S),
    ):
        waits = {asyncio.ensure_future(one.wait()): "one", asyncio.ensure_future(two.wait()): "two"}
        (ended, *_), (goes_on, *_) = await asyncio.wait(waits, return_when="FIRST_COMPLETED")
        goes_on.cancel()
        assert {one.returncode, two.returncode} == {1, None}
        assert "models.flux.vram differs" in told(tmp_path / waits[ended])[-1]


async def test_as_many_sessions_are_opened_as_the_manual_says(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """The server would run out of sessions, perhaps only when another machine takes over."""
    name = postgres.database()
    text = CONFIG.format(database=postgres.url(name)) + "api: {port: 0, open: true}\n"
    sessions = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'"
    own, waiting, role, api = 1, 1, 2, 2
    async with started(tmp_path / "one", text):
        await until(lambda: postgres.sql(sessions) == [(own + 2 * role + api,)], within_s=ENDS_S)
        async with started(tmp_path / "two", text):
            both = 2 * (own + api) + 2 * role + waiting
            await until(lambda: postgres.sql(sessions) == [(both,)], within_s=ENDS_S)
