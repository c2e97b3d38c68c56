"""`--later`, `--by` and jobs that wait too long, as people see them."""

import asyncio
from datetime import datetime, timedelta

import pytest

from bot.core.live_settings import LiveSettings, LongestWaits
from queueing.core.jobs import LATER, JobState
from tests.bot.commands.test_gpu_time import told
from tests.bot.results import ask, bot_with, in_bot
from tests.fakes.clock import START
from tests.simulation.bot_installation import ADMIN, Bot, settled
from tests.simulation.loop import in_virtual_time


def clock(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%H:%M")


@pytest.mark.parametrize(
    "line", ["/image flux --later a cat", "/ask qwen --later why?", "/image flux --by 8:00 a cat"]
)
@in_bot()
async def test_what_is_asked_for_later_waits_for_everything_else(running: Bot, line: str) -> None:
    """The option would be part of the prompt, or change nothing."""
    await told(running, "/image flux first", "fake:2")
    job = await ask(running, line)
    assert job is not None
    assert job.lane == LATER
    assert "--" not in str(job.request)
    await told(running, "/image flux second", "fake:2")
    await told(running, "/queue")
    await asyncio.sleep(100)
    ended = await running.queue.jobs.history("fake:2", limit=5)
    later = await running.queue.jobs.get(job.id)
    assert later is not None
    assert (later.started_at or 0.0) >= max(each.started_at or 1e12 for each in ended)
    chat = await settled(running)
    texts = [text for message in chat.messages.values() for text in message.texts]
    assert any("runs when nothing else waits" in text for text in texts)


@in_bot()
async def test_a_time_of_day_is_the_next_one_and_shown(running: Bot) -> None:
    """Eight o'clock would mean this morning, or a time that no one is told."""
    soon = clock(START + 2 * 3600)
    await told(running, "/image flux first", "fake:2")
    job = await ask(running, f"/image flux --by {soon} a cat")
    assert job is not None
    assert job.due_at == START + 2 * 3600
    passed = clock(START - 3600)
    job = await ask(running, f"/image flux --by {passed} a dog")
    assert job is not None
    assert job.due_at == START - 3600 + timedelta(days=1).total_seconds()
    await told(running, "/image flux --by soon a cat")
    await told(running, "/settings --language de")
    await told(running, "/image flux --by 25:00 eine Katze")
    english, _, german = (await settled(running)).answers
    assert english == "I can't read “soon” as a time of day. Write it like this: --by 8:00"
    assert german == "„25:00“ verstehe ich nicht als Uhrzeit. Schreib sie so: --by 8:00"


@in_virtual_time
async def test_a_job_that_waits_too_long_ends_with_a_sentence() -> None:
    """A person would forever read that the job waits, or get an image that is no longer wanted."""
    async with bot_with(live=LiveSettings(waits=LongestWaits(chat=600.0))) as running:
        await told(running, "/pause flux", ADMIN)
        job = await ask(running, "/image flux a cat")
        assert job is not None
        await asyncio.sleep(601)
        ended = await running.queue.jobs.get(job.id)
        assert ended is not None
        assert ended.state is JobState.FAILED
        await asyncio.sleep(5)
    chat = running.chat
    texts = [message.text for message in chat.messages.values()]
    assert sum("It waited 10 min without starting" in text for text in texts) == 1
