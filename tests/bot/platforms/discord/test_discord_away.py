"""The whole bot on the fake Discord: called by people who installed it, where it is no member."""

import asyncio
from pathlib import Path

import pytest

from bot.commands.registry import COMMANDS
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
    """A question in a strange server would fail, or be answered before everybody there."""
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


async def test_admins_and_those_who_did_not_ask_for_it_call_nothing_elsewhere(
    tmp_path: Path,
) -> None:
    """The bot would be open to strangers although its operator has not allowed it."""
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
