"""What one person may send, and how large the database may become."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.app import supervisor as services
from bot.app.setup import MIGRATIONS
from bot.app.supervisor import most_mb
from bot.config.sections import RetentionConfig
from bot.core.live_settings import LiveSettings
from bot.people.people import HOUR_S
from bot.people.upload_quota import Received
from bot.platforms.web.chat.chat_log import ChatLog, ShownMessage
from bot.platforms.web.chat.renderer import shown_file
from queueing.core.errors import NotAccepting
from queueing.core.jobs import NewJob, SubmitLimits
from queueing.core.requests import File, TextToImage
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from queueing.store.sql.database import Database
from tests.bot.platforms.web.web_client import image, running, tab
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import web_chat
from tests.simulation.loop import in_virtual_time

MB = 1024 * 1024
KEPT = RetentionConfig.model_validate({"days": 7, "size": "4MB"})


class SetClock:
    """A clock that advances only when it is set."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at


def test_a_person_sends_so_many_bytes_an_hour() -> None:
    """One person filled the disk with ten megabytes a second."""
    clock = SetClock()
    received = Received(LiveSettings(files_per_hour_mb=10), clock)
    assert received.fits_at("ada", 10 * MB) is None
    received.note("ada", 6 * MB)
    clock.at += 60
    received.note("ada", 4 * MB)
    assert received.fits_at("ben", 10 * MB) is None
    assert received.fits_at("ada", 0) is None
    assert received.fits_at("ada", 1) == clock.at - 60 + HOUR_S
    assert received.fits_at("ada", 7 * MB) == clock.at + HOUR_S
    clock.at += HOUR_S
    assert received.fits_at("ada", 10 * MB) is None


@given(st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 12)), max_size=40))
def test_no_hour_holds_more(sent: list[tuple[int, int]]) -> None:
    """The limit for an hour would depend on when it is checked."""
    clock = SetClock()
    received, taken = Received(LiveSettings(files_per_hour_mb=10), clock), list[tuple[float, int]]()
    for wait, size in sent:
        clock.at += wait
        at = received.fits_at("ada", size * MB)
        assert at is None or at > clock.at
        if at is None:
            received.note("ada", size * MB)
            taken.append((clock.at, size))
        hour = [each for when, each in taken if when > clock.at - HOUR_S]
        assert sum(hour) <= 10 or hour.count(0) == len(hour) - 1


async def test_the_page_says_that_it_was_too_much() -> None:
    """The message would be lost, or repeated forever."""
    async with (
        running(web_chat(port=0, live=LiveSettings(files_per_hour_mb=1)), ScriptedHandler()) as web,
        tab(web) as page,
    ):
        upload = web._server._calls.upload  # type: ignore[union-attr]
        person = web._people.by_id("local")
        assert person is not None
        large = File(name="a", mime="text/plain", data=bytes(MB - 10))
        for file, answer, reason in (
            (large, "taken", ""),
            (image(), "refused", "too-much"),
        ):
            key = await page.say("look", uploads=[upload(person, file)])
            told = await page.next(answer)
            assert (told["key"], told.get("reason", "")) == (key, reason)
        await page.say("words cost nothing")
        await page.next("taken")


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    url = f"sqlite:///{tmp_path}/usher.sqlite"
    opened = await open_database(url, migrations=(MIGRATIONS,), most_mb=8)
    yield opened
    await opened.aclose()


async def _put(log: ChatLog, number: int) -> None:
    file = File(name="a.bin", mime="a/b", data=bytes([number]) * MB)
    shown = ShownMessage(author="person", files=(shown_file("local", f"m{number}", file),))
    await log.put("local", f"m{number}", float(number), shown, (file,))


async def test_a_database_of_its_largest_size_is_a_full_disk(database: Database) -> None:
    """Requests would be stored until the machine's disk is full."""
    log, store = ChatLog(database), JobStore(database)
    new = NewJob(
        model="flux",
        request=TextToImage(prompt="cat"),
        owner="ada",
        key="k",
        files=(File(name="a", mime="b", data=bytes(9 * MB)),),
    )
    with pytest.raises(NotAccepting) as refused:
        await store.add(new, 1.0, limits=SubmitLimits())
    assert refused.value.full_disk
    await _put(log, 1)  # smaller ones go on
    assert await database.used_mb() <= 8


@in_virtual_time
async def test_much_that_comes_is_tidied_before_the_hour_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within an hour the database grew by all that came, whatever the operator allowed."""
    monkeypatch.setattr(services, "_MUCH_LEAST_MB", 3)
    database = await open_database("sqlite://", migrations=(MIGRATIONS,), inline=True)
    log, clock = ChatLog(database), SetClock()
    tidying = asyncio.create_task(
        services.tidy(database, JobStore(database), log, clock, LiveSettings(kept_mb=4))
    )
    await asyncio.sleep(1)
    for number in range(8):
        await _put(log, number)
    await asyncio.sleep(120)
    used = await database.used_mb()
    tidying.cancel()
    await asyncio.gather(tidying, return_exceptions=True)
    await database.aclose()
    assert used <= 3
    assert most_mb(KEPT) > KEPT.size_mb
