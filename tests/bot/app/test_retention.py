"""What the database keeps of images, jobs and the page, and what is deleted first."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bot.app.setup import MIGRATIONS
from bot.app.supervisor import delete_expired
from bot.core.live_settings import LiveSettings
from bot.platforms.web.chat.chat_log import ChatLog, ShownMessage, TextPart
from bot.platforms.web.chat.renderer import shown_file
from queueing.core.jobs import Job, JobEvent, NewJob, SubmitLimits
from queueing.core.requests import File, Output, TextToImage
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from queueing.store.sql.database import Database

MB = 1024 * 1024
NOW = 1_000_000.0
KEPT = LiveSettings(kept_mb=4)


@pytest_asyncio.fixture(params=["sqlite", "postgres"])
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else "sqlite://"
    opened = await open_database(url, migrations=(MIGRATIONS,), inline=True)
    yield opened
    await opened.aclose()


def _image(number: int) -> File:
    return File(name=f"{number}.png", mime="image/png", data=bytes([number]) * (MB - 1000))


async def _drawn(store: JobStore, number: int) -> Job:
    """Have an image drawn and delivered."""
    request = TextToImage(prompt=f"cat {number}")
    new = NewJob(model="flux", request=request, owner="web:local", key=f"k{number}")
    job = await store.add(new, NOW, limits=SubmitLimits())
    job = (await store.apply(job, JobEvent.START, NOW, backend="comfy", runner="r")).job
    output = Output(files=(_image(number),))
    job = (await store.apply(job, JobEvent.COMPLETE, NOW + number, output=output)).job
    await store.acknowledge(job)
    return job


async def _put(log: ChatLog, number: int) -> None:
    """Put a message with an image on the page."""
    file = _image(number)
    described = (shown_file("local", f"m{number}", file),)
    shown = ShownMessage(author="usher", body=(TextPart(text=f"cat {number}"),), files=described)
    await log.put("local", f"m{number}", NOW + number, shown, (file,))


async def _on_the_page(log: ChatLog) -> dict[str, int]:
    """Return how many images of each message its page can fetch."""
    entries = await log.since("local", 0, 100)
    return {
        entry.shown.body[0].text: len(  # type: ignore[union-attr]
            [each for each in entry.shown.files if await log.file("local", each.id)]
        )
        for entry in entries
        if entry.shown
    }


async def test_the_oldest_images_go_first_and_the_words_stay(database: Database) -> None:
    """The page's images would fill the disk beyond what the operator allows."""
    log, store = ChatLog(database), JobStore(database)
    for number in range(5):
        await _put(log, number)
    seen = (await log.since("local", 0, 100))[-1].number
    await delete_expired(store, log, KEPT, NOW + 60)
    assert await _on_the_page(log) == {"cat 0": 0, "cat 1": 0, "cat 2": 0, "cat 3": 1, "cat 4": 1}
    assert len(await log.since("local", seen, 100)) == 3  # open pages hear of it


async def test_jobs_have_what_the_page_leaves(database: Database) -> None:
    """Without a web chat half of the space would be unused; with one it would be used twice."""
    log, store = ChatLog(database), JobStore(database)
    jobs = [await _drawn(store, number) for number in range(5)]
    await delete_expired(store, log, KEPT, NOW + 60)
    assert [await store.output(job) is not None for job in jobs] == [False, True, True, True, True]
    await _put(log, 7)
    await delete_expired(store, log, KEPT, NOW + 60)
    assert [await store.output(job) is not None for job in jobs] == [False, False, True, True, True]
    assert await _on_the_page(log) == {"cat 7": 1}
