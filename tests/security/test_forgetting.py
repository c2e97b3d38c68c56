"""`/forget` and retention really delete: afterwards no file of the bot holds a byte of it."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from bot.app.app import BotParts
from bot.app.setup import MIGRATIONS
from bot.people.people import HOUR_S, People
from bot.platforms.web.platform import Web
from queueing.core.errors import LimitReached
from queueing.core.jobs import JobEvent, SubmitLimits
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from tests.bot.people.test_invites import everything_in
from tests.bot.platforms.web.web_client import Tab, tab
from tests.contracts.store.store_harness import NO_LIMITS, NOW, new
from tests.fakes.telegram.telegram import FakeTelegram
from tests.security.bots import on_telegram

OWNER = "correct-horse-battery-staple"
SECRET = "my-neighbour-is-called-ada"


def tables_with(words: str, database: Path) -> list[str]:
    """Return the tables that contain these words anywhere."""
    with closing(sqlite3.connect(database)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        return [
            table
            for (table,) in tables.fetchall()
            if words in str(connection.execute(f"SELECT * FROM {table}").fetchall())
        ]


@asynccontextmanager
async def on_the_page(folder: Path) -> AsyncIterator[tuple[BotParts, Tab]]:
    """Run the bot and open the page of its owner."""
    more = f"  web: {{port: 0, token: '{OWNER}'}}\n"
    async with FakeTelegram() as fake, on_telegram(fake, folder, more=more) as parts:
        (web,) = (each for each in parts.platforms if isinstance(each, Web))
        await web.connected.wait()
        async with tab(web, cookie=OWNER) as page:
            yield parts, page


async def told(parts: BotParts, page: Tab, line: str) -> None:
    """Send a message that becomes a job and wait until its end is on the page."""
    await page.say(line)
    await page.next("taken")
    async with asyncio.timeout(60):
        while await parts.queue.deliveries.unacknowledged():  # noqa: ASYNC110  nothing tells of it
            await asyncio.sleep(0.01)


async def test_who_was_forgotten_is_in_no_count_an_hour_later(tmp_path: Path) -> None:
    """The id of a person who never comes back would stay forever."""
    database = await open_database(f"sqlite:///{tmp_path}/u.sqlite", migrations=(MIGRATIONS,))
    store = JobStore(database)
    mine = await store.add(new(owner="telegram:7"), NOW, limits=NO_LIMITS)
    await store.apply(mine, JobEvent.CANCEL, NOW)
    await store.erase([mine.id])
    await People(database).forget("telegram:7")
    await store.add(new(owner="telegram:8"), NOW + HOUR_S + 1, limits=NO_LIMITS)
    await database.aclose()
    assert tables_with("telegram:7", tmp_path / "u.sqlite") == []


async def test_forgetting_is_no_way_out_of_a_ban_or_a_quota(tmp_path: Path) -> None:
    """A person who is banned, or has used up the hour, would start anew by being forgotten."""
    database = await open_database(f"sqlite:///{tmp_path}/u.sqlite", migrations=(MIGRATIONS,))
    people, store = People(database), JobStore(database)
    await people.change(
        "telegram:7", banned_at=1.0, ban_reason="rude", per_hour=1, max_open=2, language="de"
    )
    mine = await store.add(new(owner="telegram:7"), NOW, limits=NO_LIMITS)
    await store.apply(mine, JobEvent.CANCEL, NOW)
    await store.erase([mine.id])
    await people.forget("telegram:7")
    person = await people.get("telegram:7")
    assert person.is_banned(2000.0)
    assert (person.ban_reason, person.per_hour, person.max_open) == ("rude", 1, 2)
    assert person.language is None
    with pytest.raises(LimitReached) as refusal:
        await store.add(new(owner="telegram:7"), NOW + 1, limits=SubmitLimits(max_per_hour=1))
    assert refusal.value.free_at == NOW + HOUR_S
    await database.aclose()


async def test_a_persons_words_are_gone_from_the_disk(tmp_path: Path) -> None:
    """What a person had deleted could still be read from the database's files."""
    async with FakeTelegram() as fake, on_telegram(fake, tmp_path) as parts:
        person, other = fake.person(7, "Ada Byron"), fake.person(8)
        for line in (f"/ask llama {SECRET}", f"/image flux {SECRET}", "/settings --language de"):
            person.says(line)
        other.says("/ask llama something-else")
        await fake.wait_for(lambda: len(person.chat.from_bot) >= 3 and other.chat.from_bot)
        await fake.wait_for(
            lambda: "Cancel" not in [b.label for m in person.chat.from_bot for b in m.buttons],
            timeout_s=60,
        )
        await fake.quiet()
        assert SECRET.encode() in everything_in(tmp_path)
        before = len(person.chat.from_bot)
        person.says("/forget me --sure")
        await fake.wait_for(lambda: person.chat.from_bot[before:])
        files = everything_in(tmp_path)
        for trace in (SECRET, "Ada Byron"):
            assert trace.encode() not in files, trace
        kept = tables_with("telegram:7", tmp_path / "usher.sqlite")
        assert kept == ["charges", "gpu_use"]  # for an hour and two days
        assert b"something-else" in files
        assert await parts.queue.jobs.open_jobs("telegram:7") == []
    assert SECRET.encode() not in everything_in(tmp_path)


async def test_a_web_chat_is_gone_from_the_disk(tmp_path: Path) -> None:
    """The page keeps its messages in Usher's own database: they must go with the person's jobs."""
    async with on_the_page(tmp_path) as (parts, page):
        await told(parts, page, f"/ask llama {SECRET}")
        assert SECRET.encode() in everything_in(tmp_path)
        await page.say("/forget me --sure")
        await page.next("taken")
        await page.entry("deleted")
        assert SECRET.encode() not in everything_in(tmp_path)


async def test_a_forgotten_conversation_is_gone_from_the_disk(tmp_path: Path) -> None:
    """The log beside the database would keep the words of the page's messages for days."""
    async with on_the_page(tmp_path) as (parts, page):
        await told(parts, page, f"/ask llama {SECRET}")
        await page.say("/forget conversation")
        await page.next("taken")
        await page.entry("have been deleted")
        assert SECRET.encode() not in everything_in(tmp_path)


async def test_what_retention_lets_go_of_is_gone_from_the_disk(tmp_path: Path) -> None:
    """Words and images would stay on the disk long after the days that the operator allows."""
    async with on_the_page(tmp_path) as (parts, page):
        await told(parts, page, f"/image flux {SECRET}")
        later = time.time() + 1.0
        assert await parts.chat_log.expire(later) == 1  # the question: the job is still kept
        assert await parts.store.purge(later) == 1
        await parts.chat_log.expire(later)
        assert SECRET.encode() not in everything_in(tmp_path)
        assert await parts.chat_log.expire(later) == 0
        seen = page.number
        await page.say("/help")
        await page.next("taken")
        entries = await parts.chat_log.since("local", seen, 100)
        assert "/help" in str(entries)  # no number was given twice: the page hears of it
