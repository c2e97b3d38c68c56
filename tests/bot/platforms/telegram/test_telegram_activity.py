"""Real python-telegram-bot with a fake Bot API: "sending a photo…" during a slow upload."""

import asyncio

import pytest

from bot.core.content import Content
from bot.platforms.telegram.activity import action_of
from queueing.core.requests import File
from tests.bot.platforms.discord.discord_bot import RecordingHandler, says
from tests.bot.platforms.telegram.telegram_bot import image, running
from tests.fakes.telegram.telegram import FakeTelegram

DONE = Content(body=("done",), files=(image(),))


@pytest.mark.thorough
@pytest.mark.parametrize("edited", [False, True])
async def test_a_slow_upload_is_shown_until_it_has_arrived(edited: bool) -> None:
    """During a minute-long upload of a video, the bot would seem to have stopped."""
    async with FakeTelegram() as fake, running(fake, RecordingHandler()) as chat:
        group, arrived = fake.group(forum=True), asyncio.Event()
        ref = await chat.send("-1001/5", says("⏳"))
        fake.fail("editMessageMedia" if edited else "sendPhoto", until=arrived)
        sending = chat.edit(ref, DONE) if edited else chat.send("-1001/5", DONE)
        task = asyncio.ensure_future(sending)
        await fake.wait_for(lambda: group.actions == ["upload_photo"] * 2)
        arrived.set()
        await task
        shown = [each for each in fake.api.requests if each.method == "sendChatAction"]
        assert [each.values["message_thread_id"] for each in shown] == [5, 5]
        assert group.from_bot[-1].file is not None


@pytest.mark.thorough
async def test_a_refused_action_does_not_cost_the_upload() -> None:
    """A picture would be lost because its announcement was refused."""
    async with FakeTelegram() as fake, running(fake, RecordingHandler()) as chat:
        person, arrived = fake.person(7), asyncio.Event()
        fake.fail("sendPhoto", until=arrived)
        fake.fail(
            "sendChatAction", status=429, text="Too Many Requests", parameters={"retry_after": 9}
        )
        task = asyncio.ensure_future(chat.send("7", DONE))
        await fake.wait_for(lambda: fake.api.answers_429)
        arrived.set()
        await task
        assert person.chat.from_bot[0].file is not None


async def test_a_quick_upload_needs_no_word() -> None:
    """For five seconds the chat would announce a picture that has already arrived."""
    async with FakeTelegram() as fake, running(fake, RecordingHandler()) as chat:
        fake.person(7)
        await chat.send("7", DONE)
        assert not fake.person(7).chat.actions
        assert fake.api.requests[-1].method == "sendPhoto"


def test_the_word_fits_the_file() -> None:
    """A track would be announced as a photo."""
    files = (image(), File(name="a", mime="", data=b"words"))
    assert [action_of(each).value for each in files] == ["upload_photo", "upload_document"]
