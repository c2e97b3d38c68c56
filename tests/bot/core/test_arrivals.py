"""Each person's requests in a chat are accepted in order, and no one waits for others."""

import asyncio
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.arrivals import PATIENCE_S, Arrivals
from bot.core.platform import Attachment
from bot.people.access import PersonLimits
from queueing.core.requests import Chat
from tests.bot.platforms.discord.discord_bot import RecordingHandler, running
from tests.bot.platforms.discord.test_discord_app import usher
from tests.bot.results import image, in_bot
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.discord.discord_state import APPLICATION_ID, FakeFile
from tests.simulation.bot_installation import Bot
from tests.simulation.loop import in_virtual_time

_NO_LIMITS = PersonLimits(open_per_person=100, queued_per_person=100)


def slow(seconds: float) -> Attachment:
    file = image()

    async def read() -> bytes:
        await asyncio.sleep(seconds)
        return await file.read()

    return replace(file, read=read)


LINES = st.lists(
    st.tuples(
        st.sampled_from([("1", "fake:1"), ("1", "fake:2"), ("g1", "fake:1")]),
        st.sampled_from([0.0, 0.0, 0.5, 3.0, 40.0]),  # to download what is attached
        st.sampled_from([0.0, 0.1, 2.0]),  # until the next line
    ),
    min_size=2,
    max_size=8,
)


@settings(max_examples=10)  # a bot of its own for each
@given(LINES)
@in_bot(limits=_NO_LIMITS)
async def test_requests_are_accepted_in_the_order_they_were_sent(
    running: Bot,
    lines: list[tuple[tuple[str, str], float, float]],
) -> None:
    """A follow-up would be answered before the question it continues."""
    async with asyncio.TaskGroup() as calls:
        for number, ((chat, user), download_s, pause_s) in enumerate(lines):
            files = (slow(download_s),) if download_s else ()
            call = running.chat.call(f"/ask {number}", chat=chat, user=user, files=files)
            calls.create_task(running.dispatcher.call(call))
            await asyncio.sleep(pause_s)
    accepted = [
        (job.request.messages[-1].text, job.reply_to)
        for user in ("fake:1", "fake:2")
        for job in reversed(await running.queue.jobs.history(user, limit=20))
        if isinstance(job.request, Chat)
    ]
    assert len(accepted) == len(lines)
    for chat, user in {who for who, _, _ in lines}:
        sent = [str(number) for number, (who, _, _) in enumerate(lines) if who == (chat, user)]
        assert [text for text, _ in accepted if text in sent] == sent


@in_bot(limits=_NO_LIMITS)
async def test_a_slow_download_holds_up_nothing_but_requests(running: Bot) -> None:
    """A person would only be told after a minute that there is nothing to cancel."""
    now = asyncio.get_running_loop().time

    async def took(text: str, **fields: object) -> float:
        began_at = now()
        await running.dispatcher.call(running.chat.call(text, **fields))  # type: ignore[arg-type]
        return now() - began_at

    await took("/ask before")
    (job,) = await running.queue.jobs.open_jobs("fake:1")
    downloading = asyncio.ensure_future(took("/ask this", files=(slow(60),)))
    await asyncio.sleep(0.1)
    behind = asyncio.ensure_future(took("/ask that"))
    pressed = {"button": True, "options": {"id": job.id}}
    assert await took("/cancel", **pressed) < 0.5
    for text in ("/queue", "/cancel", "/help", "/settings"):
        assert await took(text) < PATIENCE_S + 0.5
    assert await took("/ask mine", user="fake:2") < 0.5
    assert await took("/ask there", chat="g2") < 0.5
    assert not behind.done()
    assert await downloading > 59
    assert await behind > 57


@in_bot()
async def test_what_fails_lets_the_others_go_on(running: Bot) -> None:
    """One broken download would block its person's requests for good."""

    async def read() -> bytes:
        await asyncio.sleep(5)
        raise RuntimeError("a bug")

    broken = replace(image(), read=read)
    async with asyncio.TaskGroup() as calls:
        for files in ((broken,), ()):
            call = running.chat.call("/ask why?", files=files)
            calls.create_task(running.dispatcher.call(call))
            await asyncio.sleep(0)
    assert len(await running.queue.jobs.history("fake:1", limit=5)) == 1


@in_virtual_time
async def test_no_line_is_kept_of_people_who_wait_for_nothing() -> None:
    """Every person who ever wrote would take up memory forever."""
    arrivals = Arrivals()
    places = [arrivals.take(f"fake:{number % 3}", "1") for number in range(9)]
    for place in places[::2] + places[1::2]:
        place.settle()
        place.settle()
    assert not arrivals._lines


async def test_an_interaction_is_acknowledged_while_it_waits_for_its_turn(tmp_path: Path) -> None:
    """Discord would say that the application did not respond, though it did what was asked."""
    async with FakeDiscord() as fake, usher(fake, tmp_path):
        downloaded = asyncio.Event()
        file = FakeFile(
            id=fake.ids.new(),
            name="cat.png",
            data=await image().read(),
            mime="image/png",
            until=downloaded,
        )
        fake.keep_file(file)
        person = fake.person(7)
        await person.says(f"<@{APPLICATION_ID}> what is this?", file)
        call = await person.slash("ask", model="llama", prompt="why?")
        await fake.wait_for(lambda: call.message is not None and call.message.thinking)
        downloaded.set()
        await fake.wait_for(lambda: call.answer)


async def test_a_mention_is_told_that_it_never_comes_again() -> None:
    """A mention in the last moment of a stop would get no answer, now or later."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        await fake.person(7).says(f"<@{APPLICATION_ID}> why?")
        assert not (await handler.called()).comes_again
