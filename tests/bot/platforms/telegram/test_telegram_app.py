"""The whole bot on the fake Telegram: from a typed command to the delivered picture and back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.cli import check
from bot.config import load as configuration
from bot.runtime.app import BotParts
from tests.bot.platforms.telegram.telegram_bot import picture
from tests.bot.whole_bot import DRAWS_AND_WRITES, on_telegram
from tests.fakes.telegram import FakeTelegram
from tests.fakes.telegram_state import FakeMessage, Limits

CONFIG = f"""
{DRAWS_AND_WRITES}
chats:
  telegram: {{token: "${{TELEGRAM_TOKEN}}", api_url: "${{TELEGRAM_API}}"}}
admins: ["telegram:1"]
"""


@asynccontextmanager
async def usher(
    fake: FakeTelegram,
    folder: Path,
    *,
    picture_s: float = 0.3,
    go_on: asyncio.Event | None = None,
) -> AsyncIterator[BotParts]:
    text = CONFIG.replace("PICTURE_S", str(picture_s))
    async with on_telegram(fake, folder, text, go_on=go_on) as parts:
        yield parts


def answers(fake: FakeTelegram, person: int, request: FakeMessage) -> list[FakeMessage]:
    """Return what the bot replied to a message in that chat."""
    return [each for each in fake.person(person).chat.from_bot if each.reply_to == request.id]


def done(message: FakeMessage) -> bool:
    return message.file is not None


def ended(message: FakeMessage) -> bool:
    return any(each.data.startswith("again:") for each in message.buttons)


async def test_a_picture_is_asked_for_and_delivered_in_one_message(tmp_path: Path) -> None:
    """The main job would not work on Telegram."""
    async with FakeTelegram(limits=Limits()) as fake, usher(fake, tmp_path):
        person = fake.person(7, "Ada")
        person.says("/image flux a *cat* @somebody")
        await fake.wait_for(lambda: any(map(done, person.chat.from_bot)))
        [message] = person.chat.from_bot
        assert message.file is not None
        assert message.file.data.startswith(b"\x89PNG")
        assert "a *cat* @somebody" in message.shown
        assert message.notified == []
        assert len(message.history) > 1
        assert ended(message)
    assert fake.api.answers_429 == 0


async def test_jobs_wait_in_line_and_one_is_cancelled_by_its_button(tmp_path: Path) -> None:
    """Positions would not be shown, or the button would cancel another job."""
    go_on = asyncio.Event()
    async with FakeTelegram() as fake, usher(fake, tmp_path, go_on=go_on):
        group = fake.group(-1001)
        person, stranger = fake.person(7, "Ada"), fake.person(8)
        for number in range(3):
            person.says(f"/image=flux=cat {number}", chat=group)
        await fake.wait_for(lambda: len(group.from_bot) == 3)
        last = group.from_bot[2]
        press = stranger.presses(last, "Cancel")
        await fake.wait_for(lambda: press.answered)
        assert press.alert is not None
        assert "only" in press.alert.lower()
        person.presses(last, "Cancel")
        await fake.wait_for(lambda: last.shown.startswith("Cancelled"))
        go_on.set()
        await fake.wait_for(lambda: all(map(done, group.from_bot[:2])))
        assert not done(last)
        assert any("in line" in text for each in group.from_bot for text in each.history)


async def test_work_goes_on_after_a_restart_in_the_same_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A restart would lose a waiting job or its message, or run a redelivered request twice."""
    async with FakeTelegram() as fake:
        person = fake.person(7, "Ada")
        async with usher(fake, tmp_path, go_on=asyncio.Event()):
            person.says("/image flux cat")
            await fake.wait_for(lambda: person.chat.from_bot)
            await fake.quiet()
            unconfirmed = person.says("/image flux dog")
            await fake.wait_for(lambda: answers(fake, 7, unconfirmed))
        person.repeats(unconfirmed)
        async with usher(fake, tmp_path) as parts:
            await fake.wait_for(lambda: all(map(done, person.chat.from_bot)))
            await fake.quiet()
            assert len(person.chat.from_bot) == 2
            assert await parts.queue.jobs.get(3) is None
    assert "not reached" not in caplog.text, "a delivery did not wait for the connection"


async def test_an_answer_streams_and_is_continued_by_a_reply(tmp_path: Path) -> None:
    """Texts would not arrive, or a reply to an answer would begin from nothing."""
    async with FakeTelegram() as fake, usher(fake, tmp_path) as parts:
        person = fake.person(7)
        first = person.says("/ask llama why?")
        await fake.wait_for(lambda: any(map(ended, answers(fake, 7, first))))
        [answer] = answers(fake, 7, first)
        assert "why?" in answer.shown
        assert len(answer.history) > 1
        more = person.says("and why not?", reply_to=answer)
        await fake.wait_for(lambda: any(map(ended, answers(fake, 7, more))))
        job = await parts.queue.jobs.get(2)
        assert job is not None
        assert job.request.kind == "chat"
        assert len(job.request.messages) == 3


async def test_a_picture_is_changed_by_a_reply_to_the_question_for_it(tmp_path: Path) -> None:
    """Where Discord opens a form, people on Telegram could not say what to change."""
    async with FakeTelegram() as fake, usher(fake, tmp_path) as parts:
        person, group = fake.person(7), fake.group()
        first = person.says("/image flux cat", chat=group)
        await fake.wait_for(lambda: any(map(ended, group.from_bot)))
        [result] = group.from_bot
        assert result.reply_to == first.id
        person.sends_data(result, "edit:1")
        await fake.wait_for(lambda: len(group.from_bot) == 2)
        question = group.from_bot[1]
        assert question.awaits
        assert question.notified == ["7"]
        person.says("dog", chat=group, reply_to=question)
        await fake.wait_for(lambda: len([each for each in group.from_bot if ended(each)]) == 2)
        job = await parts.queue.jobs.get(2)
        assert job is not None
        assert job.request.kind == "text-to-image"
        assert job.request.prompt == "dog"


async def test_admins_alone_may_preload(tmp_path: Path) -> None:
    """Anyone could move models about, or an anonymous admin of some group could."""
    async with FakeTelegram() as fake, usher(fake, tmp_path):
        group, admin = fake.group(), fake.person(1)
        refused = [
            fake.person(7).says("/preload flux", chat=group),
            admin.says("/preload flux", chat=group, anonymous=True),
        ]
        allowed = admin.says("/preload flux", chat=group)
        await fake.wait_for(lambda: len(group.from_bot) == 3)
        told = {each.reply_to: each for each in group.from_bot}
        for request in refused:
            assert "admin" in told[request.id].shown
        assert "admin" not in told[allowed.id].shown
        await fake.wait_for(lambda: "is loaded" in told[allowed.id].shown)


async def test_a_photo_with_a_caption_is_the_picture_to_look_at(tmp_path: Path) -> None:
    """A command in a photo's caption would do nothing, or come without the photo."""
    async with FakeTelegram() as fake, usher(fake, tmp_path) as parts:
        person = fake.person(7)
        person.says("/ask llama what is this?", photo=picture(kind="JPEG").data)
        await fake.wait_for(lambda: person.chat.from_bot)
        job = await parts.queue.jobs.get(1)
        told = person.chat.from_bot[0].shown
        assert job is not None, told
        [file] = await parts.queue.jobs.inputs(job) or ()
        assert file.mime == "image/jpeg"


async def test_a_photo_is_called_by_no_name_that_nobody_gave_it(tmp_path: Path) -> None:
    """A person who sent two photos would read of "photo.jpg, photo.jpg"."""
    async with FakeTelegram() as fake, usher(fake, tmp_path):
        person = fake.person(7)
        person.says("/queue", photo=picture(kind="JPEG").data)
        await fake.wait_for(lambda: person.chat.from_bot)
        assert person.chat.from_bot[0].shown.startswith("/queue doesn't take pictures. ")


async def test_check_tells_whether_the_token_works(tmp_path: Path) -> None:
    """`usher check` would skip Telegram, or print the token with what is wrong."""
    async with FakeTelegram() as fake:
        environ = {"TELEGRAM_TOKEN": fake.token, "TELEGRAM_API": fake.url}
        config = configuration.parse(CONFIG.replace("PICTURE_S", "1"), environ, folder=tmp_path)
        told = []
        for token in (fake.token, "1:another"):
            fake.api.token = token
            findings = await check.try_everything(config, try_s=10)
            told += [each for each in findings if (each.what, each.name) == ("chat", "telegram")]
    assert [each.works for each in told] == [True, False]
    assert "@usher_test_bot" in told[0].text
    assert "token" in told[1].text
    assert fake.token not in told[1].text
