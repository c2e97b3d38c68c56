"""`usher check` with a shared database: who does what, and whether this configuration fits."""

import time
from itertools import dropwhile, takewhile
from pathlib import Path

import pytest

from bot.app.cluster.agreement import Agreement
from bot.app.cluster.leases import PATIENCE_S, RoleList
from bot.cli import check
from bot.cli.findings import Finding
from bot.config.config import Config
from bot.config.loader import parse
from queueing.core.errors import StoreError
from tests.fakes.programs.postgres_server import PostgresServer
from tests.fakes.roles import FakeRoles, RoleTable
from tests.simulation.loop import in_virtual_time

pytest.importorskip("psycopg")

from queueing.store.postgres.lease_store import PostgresLeases  # an extra

CONFIG = """\
database: {url}
hosts: {{home: {{vram: 24GB, backends: {{stand-in: {{kind: demo}}}}}}}}
models: {{flux: {{backends: [stand-in], vram: 12GB}}}}
chats: {{web: {{port: 0}}}}
"""
TRY_S = 30.0


def configured(url: str, folder: Path) -> Config:
    return parse(CONFIG.format(url=url), {}, folder=folder)


async def rows(config: Config) -> list[Finding]:
    found = await check.try_everything(config, try_s=TRY_S)
    after = dropwhile(lambda each: each.what != "role", found)
    return list(takewhile(lambda each: each.what in {"role", "processes", ""}, after))


@pytest.mark.parametrize("off_s", [-5.0, 10 * 24 * 3600.0])
async def test_the_clock_is_compared_with_the_servers(
    off_s: float, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong clock on a stand-by would only be found when it has to take over."""
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + off_s)
    found = await check.try_everything(configured(postgres_url, tmp_path), try_s=TRY_S)
    (clock,) = [each for each in found if each.what == "clock"]
    assert clock.works is (abs(off_s) < 60)
    assert "864000 s ahead of" in clock.text or " s from the database server's" in clock.text


async def test_each_post_is_shown_with_its_holder(postgres_url: str, tmp_path: Path) -> None:
    """An operator would switch off the machine that does the work."""
    config = configured(postgres_url, tmp_path)
    assert [(each.name, each.works, each.text) for each in await rows(config)] == [
        ("queue", None, "free"),
        ("web", None, "free"),
    ]
    roles = PostgresLeases(postgres_url, process="gpu-1:4711", lease_s=600)
    about = Agreement(config, "0.9").about("queue")
    assert await roles.take("queue", address="1.1.1.1:8124", about=about) is not None
    held, note, web, same = await rows(config)
    assert held.works is True
    assert held.text.startswith("held by gpu-1:4711 (usher 0.9), ")
    assert held.text.endswith(" s of its lease left, listens at 1.1.1.1:8124")
    assert "1.1.1.1:8124 is not encrypted, and the address is public" in note.text
    assert (web.name, web.text) == ("web", "free")
    assert (same.what, same.works, same.text) == ("processes", True, "same as the other processes")
    await roles.aclose()


async def test_a_queue_that_no_process_takes_is_a_failure(
    postgres_url: str, tmp_path: Path
) -> None:
    """The check would say that all works while no request is accepted."""
    roles = PostgresLeases(postgres_url, process="gpu-1:4711", lease_s=600)
    config = configured(postgres_url, tmp_path)
    about = Agreement(config, "0.9").about("web")
    assert await roles.take("web", address="10.0.0.7:8124", about=about) is not None
    queue, web, _ = await rows(config)
    assert (queue.name, queue.works, web.works) == ("queue", False, True)
    assert queue.text.startswith("free although processes run")
    await roles.aclose()


async def test_a_configuration_that_would_be_refused_fails(
    postgres_url: str, tmp_path: Path
) -> None:
    """It would only be noticed when the process is started."""
    roles = PostgresLeases(postgres_url, process="gpu-1:4711", lease_s=600)
    config = configured(postgres_url, tmp_path)
    about = Agreement(config, "0.9").about("queue")
    assert await roles.take("queue", address="10.0.0.7:8124", about=about) is not None
    other = parse(CONFIG.format(url=postgres_url).replace("12GB", "8GB"), {}, folder=tmp_path)
    *others, last = await rows(other)
    assert (last.works, "models.flux.vram differs" in last.text) == (False, True)
    assert not any("public" in each.text for each in others)
    await roles.aclose()


async def test_open_jobs_of_a_missing_model_fail(
    postgres_url: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    """The first process to start would refuse."""
    postgres.sql(
        "INSERT INTO jobs (id, model, lane, seq, state, not_before, queued_at, owner, key,"
        " reply_to, request) VALUES (1, 'sdxl', 'normal', 1, 'pending', 0, 0, 'web:ada', 'key',"
        " '', '{}')",
        database=postgres_url.rpartition("/")[2],
    )
    *_, last = await rows(configured(postgres_url, tmp_path))
    assert (last.works, "(1 for sdxl)" in last.text) == (False, True)


@in_virtual_time
async def test_posts_are_listed_in_order_and_in_bounded_time() -> None:
    """`/status` would wait for a database that is away, or leave out roles not yet taken."""
    table = RoleTable(15)
    roles = FakeRoles(table, "gpu-1:4711")
    shown = RoleList(roles, ("queue", "telegram", "web"))
    assert await roles.take("web", address="") is not None
    held = [(each.name, each.holder) for each in await shown.roles()]
    assert held == [("queue", ""), ("telegram", ""), ("web", "gpu-1:4711")]
    table.until["web"] = table.now()
    assert [each.holder for each in await shown.roles()] == ["", "", ""]
    roles.mute = True
    began = table.now()
    with pytest.raises(StoreError, match="does not answer"):
        await shown.roles()
    assert table.now() - began == pytest.approx(PATIENCE_S)
