"""The whole bot on the fake Discord: called by people who installed it where it is no member."""

import asyncio
from pathlib import Path

import pytest

from bot.commands.registry import COMMANDS
from bot.core.content import Button, Content
from bot.core.errors import ChatUnavailable
from bot.platforms.discord.platform import Discord
from tests.bot.platforms.discord.discord_bot import RecordingHandler, running, says
from tests.bot.whole_bot import DRAWS_AND_WRITES, on_discord
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.discord.discord_state import Channel, FakeMessage

CONFIG = f"""
{DRAWS_AND_WRITES.replace("IMAGE_S", "0.3")}
chats:
  discord: {{token: "${{DISCORD_TOKEN}}", user_install: true}}
"""


def elsewhere(fake: FakeDiscord) -> Channel:
    """Return a channel of a server that the bot does not know."""
    channel = Channel(id=777, guild=778, away=True, told=False)
    fake.rest.channels[channel.id] = channel
    return channel


def ended(message: FakeMessage | None) -> bool:
    return message is not None and any("again" in each.custom_id for each in message.buttons)


async def test_an_answer_elsewhere_is_for_the_caller_alone(tmp_path: Path) -> None:
    """A question in a foreign server would fail, or be answered in front of everybody there."""
    async with FakeDiscord() as fake, on_discord(fake, tmp_path, CONFIG):
        person, channel = fake.person(7, "Ada"), elsewhere(fake)
        asked = await person.slash("ask", model="llama", prompt="why?", in_channel=channel)
        await fake.wait_for(lambda: ended(asked.answer))
        drawn = await person.slash("image", model="flux", prompt="cat", in_channel=channel)
        await fake.wait_for(lambda: ended(drawn.answer))
        assert drawn.answer is not None
        assert drawn.answer.files
        again = await person.click(drawn.answer, "🔄 Again")
        await fake.wait_for(lambda: again.followups and ended(again.answer))
        assert len(channel.seen_by(7)) == 3
        assert channel.messages == []
        assert person.direct.messages == []


@pytest.mark.parametrize("late", [True, False])
async def test_what_is_done_too_late_comes_as_a_direct_message(tmp_path: Path, late: bool) -> None:
    """A result after fifteen minutes or a restart would be lost."""
    go_on = asyncio.Event()
    async with FakeDiscord() as fake:
        person, channel = fake.person(7, "Ada"), elsewhere(fake)
        async with on_discord(fake, tmp_path, CONFIG, go_on=go_on):
            asked = await person.slash("image", model="flux", prompt="cat", in_channel=channel)
            await fake.wait_for(lambda: asked.answer)
            if late:
                fake.later(1000)
                go_on.set()
                await fake.wait_for(lambda: any(map(ended, person.direct.messages)))
        if not late:
            async with on_discord(fake, tmp_path, CONFIG):
                await fake.wait_for(lambda: any(map(ended, person.direct.messages)))
        [result] = person.direct.messages
        assert result.files
        assert channel.messages == []


async def test_a_press_on_an_old_message_brings_it_up_to_date(tmp_path: Path) -> None:
    """A message would say "loading" forever, although its job was cancelled or deleted from it."""
    go_on = asyncio.Event()
    async with FakeDiscord() as fake, on_discord(fake, tmp_path, CONFIG, go_on=go_on):
        person, channel = fake.person(7, "Ada"), elsewhere(fake)
        asked = await person.slash("image", model="flux", prompt="cat", in_channel=channel)
        message = await fake.wait_for(lambda: asked.answer)
        assert message is not None
        fake.later(1000)
        await person.click(message, "Cancel")
        await fake.wait_for(lambda: message.shown.startswith("Cancelled"))
        fake.later(1000)
        again = await person.click(message, "🔄 Try again")
        await fake.wait_for(lambda: again.followups)
        assert message.shown.startswith("Cancelled")
        assert len(channel.seen_by(7)) == 2
        assert person.direct.messages == []
        go_on.set()
        await fake.wait_for(lambda: ended(again.answer))


async def test_an_answer_that_stays_elsewhere_is_not_said_to_be_deleted(tmp_path: Path) -> None:
    """A person would believe that an image is gone that stands above."""
    async with FakeDiscord() as fake, on_discord(fake, tmp_path, CONFIG) as bot:
        person, channel = fake.person(7, "Ada"), elsewhere(fake)
        drawn = await person.slash("image", model="flux", prompt="cat", in_channel=channel)
        await fake.wait_for(lambda: ended(drawn.answer))
        await bot.presenter.settle(10)
        fake.later(1000)
        typed = await person.slash("delete", id="1", in_channel=channel)
        await fake.wait_for(lambda: typed.answer)
        assert typed.answer is not None
        assert "couldn't delete every message of job 1" in typed.answer.shown
        assert drawn.answer in channel.seen_by(7)
        await person.click(drawn.answer, "🗑️ Delete")
        await fake.wait_for(lambda: drawn.answer not in channel.seen_by(7))


async def test_what_may_have_been_answered_elsewhere_is_not_repeated_there() -> None:
    """A repeat would show a result twice, as Discord cannot recognise repeats there."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake:
        chat = Discord(fake.token, anywhere=True)
        async with running(fake, handler, chat):
            person, channel = fake.person(7), elsewhere(fake)
            await person.slash("queue", in_channel=channel)
            typed = await handler.called()
            await typed.respond(says("in line"), False)
            for _ in range(2):
                await chat.send(typed.chat, says("a result"), nonce=typed.key)
            [answer] = channel.seen_by(7)
            assert answer.shown == "a result"
            pressable = Content(
                body=("x",), buttons=((Button(command="retry", job_id=1, label="Go"),),)
            )
            await chat.send(typed.chat, pressable, nonce=typed.key)
            press = await person.click(answer, "Go")
            call = await handler.called(2)
            await fake.wait_for(lambda: press.response_type)
            fake.fail("POST", "/webhooks/*/*", status=502, acting=True)
            with pytest.raises(ChatUnavailable):
                await chat.send(call.chat, says("another"), nonce=call.key)
            ref = await chat.send(call.chat, says("another"), nonce=call.key)
            assert await chat.send(call.chat, says("another"), nonce=call.key) == ref
            assert [each.shown for each in channel.seen_by(7)] == ["x", "another"]
            assert [each.shown for each in person.direct.messages] == ["another"]


async def test_admins_and_those_who_did_not_ask_for_it_call_nothing_elsewhere(
    tmp_path: Path,
) -> None:
    """Strangers could use the bot although its operator has not allowed it."""
    async with FakeDiscord() as fake:
        async with on_discord(fake, tmp_path, CONFIG):
            known = {each["name"]: each for each in fake.rest.commands}
        for command in COMMANDS:
            if not command.hidden:
                anywhere = 1 in known[command.name]["integration_types"]
                assert anywhere is not command.admin, command.name
                assert (2 in known[command.name]["contexts"]) is anywhere, command.name
        async with on_discord(fake, tmp_path, CONFIG.replace("user_install: true", "")):
            assert not any(1 in each["integration_types"] for each in fake.rest.commands)
