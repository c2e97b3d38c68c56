"""Databases of earlier versions come forward whole, and the bot goes on with them.

`schemas/` holds one for every schema that was released, as SQL text written by that version itself
(`sqlite3.Connection.iterdump`); a release whose schema is new adds its own.
"""

import asyncio
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bot.chat.api.content import Content
from bot.chat.records.stored_records import MIGRATIONS
from queueing.core.jobs import JobState
from queueing.store import open_database
from queueing.store.sqlite import upkeep
from queueing.store.sqlite.database import QUEUE_MIGRATIONS
from tests.fakes.chat import FakeChat, Message
from tests.simulation.bot_installation import bot
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import run

RELEASED = sorted((Path(__file__).parent / "schemas").glob("*.sql"))
Rows = Mapping[str, set[tuple[Any, ...]]]


@pytest.fixture(params=RELEASED, ids=[file.stem for file in RELEASED])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a database as an earlier version left it."""
    path = tmp_path / "usher.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(request.param.read_text(encoding="utf-8"))
    return path


def bring_forward(path: Path) -> None:
    async def opened() -> None:
        database = await open_database(f"sqlite:///{path}", migrations=(MIGRATIONS,))
        await database.aclose()

    asyncio.run(opened())


def columns(path: Path) -> dict[str, list[str]]:
    """Return the columns of each table."""
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        return {
            table: [row[1] for row in connection.execute(f"PRAGMA table_info('{table}')")]
            for (table,) in tables.fetchall()
        }


def rows(path: Path, wanted: Mapping[str, list[str]]) -> Rows:
    with closing(sqlite3.connect(path)) as connection:
        return {
            table: set(connection.execute(f"SELECT {', '.join(names)} FROM {table}"))
            for table, names in wanted.items()
            if table != "meta"
        }


def shape(path: Path) -> dict[tuple[str, str], object]:
    """Return what a database is made of, whatever the words that made it."""
    with closing(sqlite3.connect(path)) as connection:
        made = connection.execute("SELECT type, name FROM sqlite_schema").fetchall()
        parts: dict[tuple[str, str], object] = {}
        for kind, name in made:
            pragmas = ("index_xinfo",) if kind == "index" else ("table_xinfo", "foreign_key_list")
            found = [connection.execute(f"PRAGMA {p}('{name}')").fetchall() for p in pragmas]
            # where a column stands says nothing: a later one is added at the end
            parts[kind, name] = [sorted(row[1:] for row in each) for each in found]
        return parts


def test_the_first_release_and_only_real_schemas_are_kept() -> None:
    """A file left out, or of no schema there ever was, would make the other tests say nothing."""
    assert RELEASED[0].stem == "queue-1-bot-3"
    newest = (len(QUEUE_MIGRATIONS.files()), len(MIGRATIONS.files()))
    for file in RELEASED:
        _, queue, _, own = file.stem.split("-")
        assert (int(queue), int(own)) <= newest


def test_an_old_database_gets_todays_schema(old: Path, tmp_path: Path) -> None:
    """A released migration that was edited later would leave old databases without the edit."""
    new = tmp_path / "new.sqlite"
    bring_forward(new)
    bring_forward(old)
    assert shape(old) == shape(new)
    assert upkeep.damage(old) == []


def test_every_row_comes_forward(old: Path) -> None:
    """An upgrade would lose waiting jobs, results, or what is known of people."""
    names = columns(old)
    before = rows(old, names)
    assert len(before["jobs"]) >= 10
    bring_forward(old)
    names.pop("spent")  # comes forward under another name: see below
    after = rows(old, names)
    for table in names.keys() - {"meta"}:
        assert before[table] <= after[table], table


def test_what_counts_against_an_hour_comes_forward(old: Path) -> None:
    """An upgrade would give everyone a new hour, or charge them for what failed before it."""
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("INSERT INTO spent VALUES (3, 'telegram:7', 1003.0)")  # has failed
        connection.execute("INSERT INTO spent VALUES (4, 'telegram:7', 1004.5)")
        connection.execute("INSERT INTO spent VALUES (99, 'telegram:8', 1020.0)")  # is deleted
        connection.commit()
    bring_forward(old)
    assert rows(old, {"charges": ["job_id", "owner", "at"]})["charges"] == {
        (4, "telegram:7", 1004.5),
        (5, "telegram:7", 1005.0),
        (99, "telegram:8", 1020.0),
    }


def test_work_goes_on_after_an_upgrade(old: Path) -> None:
    """People would lose their place, wait for ever, or get their results again."""
    with closing(sqlite3.connect(old)) as connection:
        line = "SELECT id FROM jobs WHERE finished_at IS NULL ORDER BY id"
        waiting = [row[0] for row in connection.execute(line)]
        messages = dict(connection.execute("SELECT message, chat FROM messages").fetchall())
    models = [image_model("flux", vram_mb=16000), image_model("qwen", vram_mb=7000)]
    installation = Installation.of(models, [host("gpu-1", "comfy")], url=f"sqlite:///{old}")
    chat = FakeChat("telegram")
    asked = Content(body=("as it was",))
    chat.messages.update(
        {each: Message(chat=where, contents=[asked]) for each, where in messages.items()}
    )

    async def play() -> list[JobState]:
        async with bot(installation, chat) as running, asyncio.timeout(200_000):
            while await running.queue.deliveries.unacknowledged():  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(1)
            jobs = [await running.queue.jobs.get(job_id) for job_id in waiting]
            return [job.state for job in jobs if job is not None]

    assert run(play()) == [JobState.COMPLETED] * len(waiting)
    assert set(chat.messages) >= set(messages)  # no result came as a second message
    assert "Because." in chat.messages["502"].text
    for job_id in waiting:
        assert len(chat.messages[str(500 + job_id)].contents[-1].files) == 1
