"""An album arrives in parts, and becomes one question with all of its images."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bot.core.live_settings import ChatSettings, ChatSettingsTable, LiveSettings
from bot.core.platform import Album, Attachment, Invocation
from tests.bot.platforms.discord.discord_bot import RecordingHandler, says
from tests.bot.platforms.telegram.telegram_bot import image as photo
from tests.bot.platforms.telegram.telegram_bot import running
from tests.bot.platforms.telegram.test_telegram_app import ended, usher
from tests.bot.results import ask, attachment, bot_with, done, image, in_bot, said
from tests.fakes.telegram.telegram import FakeTelegram, Person
from tests.fakes.telegram.telegram_state import FakeChat
from tests.simulation.bot_installation import Bot, settled
from tests.simulation.loop import in_virtual_time

PHOTO = photo(kind="JPEG").data


def shows(person: Person, *captions: str, chat: FakeChat | None = None, album: str = "a1") -> None:
    for caption in captions:
        person.says(caption, photo=PHOTO, chat=chat, album=album)


# ---------------------------------------------------------------- how they come in


async def test_the_parts_of_an_album_are_one_call_with_all_images() -> None:
    """One of two photos would silently be dropped."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler):
        person = fake.person(7)
        shows(person, "what differs?", "", "the third")
        person.says("hello")
        call = await handler.called(2)
        await fake.quiet()
    assert [each.text for each in handler.calls] == ["hello", "what differs?\nthe third"]
    assert (call.command, call.key) == ("ask", "telegram:7:album:a1")
    assert [file.part for file in call.files] == ["101", "102", "103"]
    assert call.album == Album()
    assert call.request is not None
    assert call.request.message == "101"


async def test_an_album_is_confirmed_when_it_is_durable_and_not_before() -> None:
    """A crash while an album is gathered, or between two of its parts, would lose images."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake:
        person = fake.person(7)
        async with running(fake, handler):
            shows(person, "what differs?")
            polls = fake.api.polls
            await fake.wait_for(lambda: fake.api.polls > polls + 1)
        assert not handler.calls
        shows(person, "")
        async with running(fake, handler):
            call = await handler.called()
            await fake.quiet()
    assert [file.part for file in call.files] == ["101", "102"]
    assert len(handler.calls) == 1


async def test_a_killed_bot_hands_an_album_on_again_under_the_same_key() -> None:
    """A crash before the confirmation would make two jobs from one album, or none."""
    stuck = asyncio.Event()

    async def dies(_call: Invocation) -> None:
        stuck.set()
        await asyncio.Event().wait()

    handler = RecordingHandler(then=dies)
    async with FakeTelegram() as fake:
        async with running(fake, handler):
            shows(fake.person(7), "what differs?", "")
            async with asyncio.timeout(60):
                await stuck.wait()
        handler.then = None
        async with running(fake, handler):
            await handler.called(2)
            await fake.quiet()
    first, second = handler.calls
    assert first.key == second.key
    assert len(first.files) == len(second.files) == 2


async def test_a_late_part_names_the_album_it_belongs_to() -> None:
    """A slow upload would be described separately, or answered as if it were the whole album."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler):
        person = fake.person(7)
        shows(person, "what differs?", "")
        await handler.called()
        shows(person, "")
        late = await handler.called(2)
    assert (late.key, [file.part for file in late.files]) == (handler.calls[0].key, ["103"])
    assert late.album == Album(begun=True)


async def test_an_album_in_a_group_is_for_us_where_it_says_so() -> None:
    """Images people show each other would be described, or those sent to the bot missed."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler) as chat:
        person, group = fake.person(7), fake.group()
        await chat.send("-1001", says("because"))
        shows(person, "look", "", chat=group, album="among-people")
        shows(person, "", "/image a cat", chat=group, album="for-us")
        shows(person, "/image a cat", chat=group, album="rest-unseen")
        await handler.called(3)
    calls = {call.key.rpartition(":")[2]: call for call in handler.calls}
    assert calls["among-people"].album == Album(asks=False)
    assert calls["for-us"].album == Album()
    assert (calls["for-us"].command, len(calls["for-us"].files)) == ("image", 2)
    assert calls["rest-unseen"].album == Album(partial=True)


# ---------------------------------------------------------------- what becomes of them


def part(number: int) -> Attachment:
    shown = image(16 * number)

    return Attachment(
        kind=shown.kind,
        name=shown.name,
        mime=shown.mime,
        size=shown.size,
        read=shown.read,
        part=str(number),
    )


def of_album(*numbers: int, key: str = "a", **about: bool) -> dict[str, Any]:
    return {
        "key": f"fake:1:album:{key}",
        "files": tuple(part(number) for number in numbers),
        "album": Album(**about),
    }


async def images_of(running: Bot) -> Sequence[bytes]:
    job = await running.queue.jobs.get(1)
    assert job is not None
    return [file.data for file in (await running.queue.jobs.inputs(job) or ())]


@in_bot()
async def test_a_late_part_joins_the_question_while_it_waits(running: Bot) -> None:
    """An image that took longer to upload would silently be missing in the answer."""
    await ask(running, "/ask what differs?", **of_album(1, 2))
    late = await ask(running, "/ask", **of_album(3, begun=True))
    assert late is None
    for _ in range(2):  # handed on again after a crash
        await ask(running, "/ask", **of_album(3, begun=False))
    assert await images_of(running) == [await part(n).read() for n in (1, 2, 3)]
    job = await running.queue.jobs.get(1)
    assert said(job) == [("user", "what differs?")]
    assert job is not None
    assert job.request.kind == "chat"
    assert job.request.messages[-1].images == (0, 1, 2)
    await ask(running, "/ask", **of_album(4, 5, begun=True))
    told = (await settled(running)).answers
    assert told == ["You attached 5 images; /describe takes at most 4."]


@in_bot()
async def test_a_part_that_comes_after_the_answer_has_begun_is_told_of(running: Bot) -> None:
    """An image would silently be dropped, and the answer be about half the album."""
    await done(running, "/ask what differs?", **of_album(1, 2))
    assert await ask(running, "/ask", **of_album(3)) is None
    assert len(await images_of(running)) == 2
    assert await ask(running, "/ask", **of_album(1, key="b", begun=True)) is None
    assert await ask(running, "/ask why?", **of_album(1, key="c", partial=True)) is None
    chat = await settled(running)
    beginnings = [text.partition(".")[0] for _, text in chat.private]
    assert beginnings == [
        "A part of your album arrived after I had started job 1, so it isn't part of the answer",
        "This arrived after the rest of its album",
        "In groups, Telegram shows me only one part of an album",
    ]


@in_virtual_time
async def test_what_comes_late_is_held_to_the_same_limits() -> None:
    """An unwanted word, or more bytes than the hour allows, would come in with a later part."""
    rules = ChatSettingsTable(by_key={"*": ChatSettings(words=("snow crash",))})
    async with bot_with(live=LiveSettings(chat_settings=rules)) as running:
        await ask(running, "/ask what differs?", **of_album(1, 2))
        await ask(running, "/ask Snow Crash", **of_album(3, begun=True))
        assert len(await images_of(running)) == 2
    chat = running.chat
    assert chat.answers == ["“snow crash” isn't allowed in this chat."]


@in_bot()
async def test_what_people_show_each_other_is_no_call(running: Bot) -> None:
    """Every album in a group would be answered."""
    assert await ask(running, "/ask", **of_album(1, asks=False), chat="g1") is None
    job = await ask(running, "/ask what differs?", **of_album(1, key="b"), chat="g1")
    assert job is not None
    await ask(running, "/ask", **of_album(2, key="b", asks=False), chat="g1")
    assert len(await images_of(running)) == 2
    assert not (await settled(running)).private


@pytest.mark.parametrize("line", ["/upscale", "/vary"])
@in_bot()
async def test_an_album_for_a_command_that_takes_one_image_is_refused(
    running: Bot, line: str
) -> None:
    """An image would be drawn from one of several, and no one would know from which."""
    assert await ask(running, line, **of_album(1, 2)) is None
    video = attachment(b"", "b.mp4", "video/mp4", part="2")
    given = of_album(1, key="b") | {"files": (part(1), video)}
    assert await ask(running, "/ask what differs?", **given) is None
    first, second = (await settled(running)).answers
    assert first == f"You attached 2 images; {line.split(maxsplit=1)[0]} takes at most 1."
    assert "b.mp4" in second


# ---------------------------------------------------------------- the whole bot


@pytest.mark.thorough
async def test_an_album_and_its_late_part_survive_restarts(tmp_path: Path) -> None:
    """A stop between two images would lose one of them, or ask about the other alone."""
    async with FakeTelegram() as fake:
        person = fake.person(7)
        async with usher(fake, tmp_path):
            shows(person, "what differs?")
            polls = fake.api.polls
            await fake.wait_for(lambda: fake.api.polls > polls + 1)
        shows(person, "")
        async with usher(fake, tmp_path) as parts:
            await fake.wait_for(lambda: any(map(ended, person.chat.from_bot)))
            job = await parts.queue.jobs.get(1)
            assert job is not None
            assert len(await parts.queue.jobs.inputs(job) or ()) == 2
        shows(person, "")
        async with usher(fake, tmp_path) as parts:
            late = "A part of your album arrived after I had started job 1"
            await fake.wait_for(lambda: any(late in each.shown for each in person.chat.from_bot))
            await fake.quiet()
            assert await parts.queue.jobs.get(2) is None


async def test_a_comment_and_its_forwards_are_one_question() -> None:
    """The comment would be answered without its topic, and each forward once more."""
    handler = RecordingHandler()
    bob = {"type": "hidden_user", "date": 1, "sender_user_name": "Bob"}
    async with FakeTelegram() as fake, running(fake, handler):
        person = fake.person(7)
        person.says("is this true?")
        person.says("The moon is made of cheese.", carries={"forward_origin": bob})
        shown = {"file_id": "x", "file_unique_id": "y", "width": 9, "height": 9}
        person.says("", carries={"forward_origin": bob, "photo": [shown]})
        call = await handler.called()
        await fake.quiet()
    assert len(handler.calls) == 1
    assert (call.command, call.text, len(call.files)) == ("ask", "is this true?", 1)
    assert [(each.by, each.text) for each in call.forwarded] == [
        ("Bob", "The moon is made of cheese.")
    ]
