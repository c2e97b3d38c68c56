"""The whole bot on the fake Telegram: from a typed command to the delivered image and back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from backends.demo import backend
from bot.app.app import BotParts
from tests.bot.platforms.telegram.telegram_bot import image
from tests.bot.whole_bot import DRAWS_AND_WRITES, on_telegram
from tests.fakes.telegram.telegram import FakeTelegram
from tests.fakes.telegram.telegram_state import FakeMessage, Limits

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
    image_s: float = 0.3,
    go_on: asyncio.Event | None = None,
) -> AsyncIterator[BotParts]:
    text = CONFIG.replace("IMAGE_S", str(image_s))
    async with on_telegram(fake, folder, text, go_on=go_on) as parts:
        yield parts


def answers(fake: FakeTelegram, person: int, request: FakeMessage) -> list[FakeMessage]:
    """Return the bot's replies to a message in that chat."""
    return [each for each in fake.person(person).chat.from_bot if each.reply_to == request.id]


def done(message: FakeMessage) -> bool:
    return message.file is not None


def ended(message: FakeMessage) -> bool:
    return any(each.data.startswith("again:") for each in message.buttons)


async def test_an_image_is_asked_for_and_delivered_in_one_message(tmp_path: Path) -> None:
    """Drawing an image would not work on Telegram."""
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


@pytest.mark.thorough
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
    assert "is unreachable" not in caplog.text, "a delivery did not wait for the connection"


async def test_an_answer_streams_and_is_continued_by_a_reply(tmp_path: Path) -> None:
    """Texts would not arrive, or a reply to an answer would start a new conversation."""
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


@pytest.mark.thorough
async def test_an_answer_in_private_grows_as_a_draft(tmp_path: Path) -> None:
    """Nobody could read the answer as it is written, or its draft would stay below it."""
    async with FakeTelegram() as fake:
        text = CONFIG.replace("IMAGE_S", "1").replace("service_s: 0.3", "service_s: 5")
        async with on_telegram(fake, tmp_path, text):
            person, group = fake.person(7), fake.group()
            first = person.says("/ask llama why?")
            person.says("/ask llama why?", chat=group)
            await fake.wait_for(lambda: person.chat.drafts)
            [above] = person.chat.from_bot
            assert [each.label for each in above.buttons] == ["⏹ Stop"]
            await fake.wait_for(lambda: any(map(ended, answers(fake, 7, first))))
            [answer] = person.chat.from_bot
            [drafts] = person.chat.drafts.values()
            assert answer.id != above.id
            assert len(drafts) > 1
            assert answer.history[0] == drafts[-1]
            assert answer.shown.startswith(drafts[0].rstrip("▌ "))
            await fake.wait_for(lambda: any(map(ended, group.from_bot)))
            assert not group.drafts


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_pasted_address_leads_nowhere_inside(tmp_path: Path, allowed: bool) -> None:
    """People could make the bot call machines that only it can reach."""
    text = f"{CONFIG.replace('IMAGE_S', '0.3')}\napi: {{port: 0, open: true, fetch: {str(allowed).lower()}}}\n"
    async with FakeTelegram() as fake, on_telegram(fake, tmp_path, text):
        person = fake.person(7)
        person.says(f"/image flux {fake.url}/a.png in blue".replace("http:", "https:"))
        await fake.wait_for(lambda: person.chat.from_bot)
        answer = person.chat.from_bot[0].shown
        assert ("couldn't" in answer) is allowed
        assert ("don't open links" in answer) is not allowed


async def test_a_photo_is_called_by_no_name_that_nobody_gave_it(tmp_path: Path) -> None:
    """A person who sent two photos would read of "photo.jpg, photo.jpg"."""
    async with FakeTelegram() as fake, usher(fake, tmp_path):
        person = fake.person(7)
        person.says("/queue", photo=image(kind="JPEG").data)
        await fake.wait_for(lambda: person.chat.from_bot)
        assert person.chat.from_bot[0].shown.startswith("/queue doesn't take images. ")


@pytest.mark.thorough
async def test_a_reply_to_an_answer_that_came_as_a_file_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group would get no answer below the longest answers, or a mere "thanks" be answered."""

    async def long(*_given: object) -> list[str]:
        return ["because " * 100] * 40

    monkeypatch.setattr(backend, "_words", long)
    async with FakeTelegram() as fake, usher(fake, tmp_path) as parts:
        person, group = fake.person(7, "Ada"), fake.group()
        person.says("/ask why?", chat=group)
        await fake.wait_for(lambda: any(map(done, group.from_bot)))
        answer = next(filter(done, group.from_bot))
        person.says("/image flux a cat", chat=group)
        await fake.wait_for(lambda: len(list(filter(done, group.from_bot))) == 2)
        drawn = list(filter(done, group.from_bot))[-1]
        person.says("lovely!", chat=group, reply_to=drawn)
        person.says("and then?", chat=group, reply_to=answer)
        await fake.wait_for(lambda: any("Only the end" in m.shown for m in group.from_bot))
        job = await parts.queue.jobs.get(3)
        assert job is not None
        assert job.request.kind == "chat"
        assert job.request.messages[-1].text == "and then?"
        assert len(job.request.messages) == 3
        assert await parts.queue.jobs.get(4) is None
