"""Results reach people whatever the fake Discord refuses; the whole bot, with real discord.py."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bot.delivery.editor import Editor
from bot.delivery.records import MessageRecords
from tests.bot.platforms.discord.test_discord_app import done, usher
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.discord.discord_state import APPLICATION_ID

EDITS = "/channels/*/messages/*"


@pytest.mark.thorough
async def test_the_end_of_an_old_message_comes_as_a_fresh_one(tmp_path: Path) -> None:
    """After an hour in the queue the result would be refused (30046) and come minutes late."""
    go_on = asyncio.Event()
    async with FakeDiscord() as fake, usher(fake, tmp_path, go_on=go_on) as parts:
        call = await fake.person(7).slash("image", model="flux", prompt="cat")
        await fake.wait_for(lambda: call.answer)
        fake.later(3700)
        fake.fail("PATCH", EDITS, status=429, code=30046, retry_after=200.0, times=100)
        go_on.set()
        await fake.wait_for(lambda: len(fake.channel().messages) == 2)
        fake.rest.faults.clear()
        await fake.wait_for(lambda: done(fake.channel().messages[1]))
        await parts.presenter.settle(10)
        assert await parts.queue.deliveries.unacknowledged() == []
        assert not done(fake.channel().messages[0])


@pytest.mark.parametrize(
    ("name", "given"), [("image", {"model": "flux", "prompt": "cat"}), ("queue", {})]
)
async def test_a_call_whose_first_answer_is_refused_gets_it_all_the_same(
    name: str, given: dict[str, Any], tmp_path: Path
) -> None:
    """People would read "The application did not respond", and below it an unrelated message."""
    async with FakeDiscord() as fake, usher(fake, tmp_path, go_on=asyncio.Event()):
        fake.fail("POST", "/interactions/*/*/callback", status=429, retry_after=0.3)
        sent = await fake.person(7).slash(name, **given)
        await fake.wait_for(lambda: sent.answer)
        posted = [each for each in fake.rest.requests if each.path == "/channels/100/messages"]
        assert posted == [], "it came as an ordinary message"


@pytest.mark.parametrize(
    ("whole", "mention"),
    [
        (False, True),
        (True, False),
        pytest.param(False, False, marks=pytest.mark.thorough),
        pytest.param(True, True, marks=pytest.mark.thorough),
    ],
)
async def test_a_first_message_nobody_could_note_is_the_only_one(
    whole: bool, mention: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash right after the first answer, the result would come in a second message."""
    go_on, answered = asyncio.Event(), asyncio.Event()

    async def dying(*_about: Any) -> None:
        answered.set()
        await asyncio.Event().wait()

    async def silent(*_about: Any) -> None:
        return None

    async with FakeDiscord() as fake:
        with monkeypatch.context() as patched:
            patched.setattr(MessageRecords, "note_message", dying)
            if whole:  # the result is ready before any first message
                go_on.set()
                patched.setattr(Editor, "_update", silent)
            async with usher(fake, tmp_path, go_on=go_on):
                person = fake.person(7)
                if mention:
                    await person.says(f"<@{APPLICATION_ID}> /image flux cat")
                else:
                    await person.slash("image", model="flux", prompt="cat")
                await answered.wait()
        go_on.set()
        async with usher(fake, tmp_path, go_on=go_on) as parts:
            await fake.wait_for(lambda: any(map(done, fake.channel().messages)))
            await parts.presenter.settle(10)
        [shown] = [each for each in fake.channel().messages if each.author is None]
        assert (len(shown.history) == 1) is whole


@pytest.mark.parametrize("private", [False, True])
async def test_a_lost_answer_to_a_message_is_repeated_as_the_same_message(
    private: bool, tmp_path: Path
) -> None:
    """There would be a second message that looks as if its job still waited."""
    go_on = asyncio.Event()
    async with FakeDiscord() as fake, usher(fake, tmp_path, go_on=go_on):
        fake.fail("POST", "/channels/*/messages", drop=True, acting=True)
        channel = fake.rest.direct(7) if private else fake.channel()
        await fake.person(7).says(f"<@{APPLICATION_ID}> /image flux cat", in_channel=channel)
        await fake.wait_for(lambda: len(channel.messages) > 1)
        go_on.set()
        await fake.wait_for(lambda: any(map(done, channel.messages)))
        assert len([each for each in channel.messages if each.author is None]) == 1
