"""Commands have each of their names, in every language, wherever they are typed."""

import pytest

from bot.commands.registry import COMMANDS
from bot.platforms.web.chat.renderer import split_command
from bot.texts.catalogue import names_of
from tests.bot.platforms.discord.discord_bot import RecordingHandler
from tests.bot.platforms.discord.discord_bot import running as on_discord
from tests.bot.platforms.telegram.telegram_bot import running as on_telegram
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.discord.discord_state import APPLICATION_ID
from tests.fakes.telegram.telegram import FakeTelegram

CALLED = {name: each.name for each in COMMANDS if not each.hidden for name in names_of(each)}


def test_the_page_and_typed_commands_know_every_name() -> None:
    """On the page "/lösche" would be sent to a model as a question."""
    assert CALLED["bild"] == CALLED["imagine"] == "image"
    assert CALLED["lösche"] == CALLED["loesche"] == "delete"
    for name in CALLED:
        assert split_command(f"/{name} 12") == (name, "12")


async def test_after_a_mention_on_discord_every_name_is_a_command() -> None:
    """A name from the menu in a person's own language would be a question when it is typed."""
    handler = RecordingHandler(commands=COMMANDS)
    async with FakeDiscord() as fake, on_discord(fake, handler):
        for name in CALLED:
            await fake.person(7).says(f"<@{APPLICATION_ID}> /{name} 12")
        await handler.called(len(CALLED))
    assert {each.command for each in handler.calls} == CALLED.keys()


@pytest.mark.parametrize("suffix", ["", "@usher_test_bot"])
async def test_in_a_group_on_telegram_every_name_is_a_command(suffix: str) -> None:
    """A person who types "/bild" would get no answer or no 👀, and "/lösche" be "/l"."""
    handler = RecordingHandler(commands=COMMANDS)
    async with FakeTelegram() as fake, on_telegram(fake, handler):
        group = fake.group()
        for name in CALLED:
            fake.person(7).says(f"/{name}{suffix} 12", chat=group)
        await handler.called(len(CALLED))
        asked = fake.person(7).says("/bild Katze", chat=group)
        await fake.wait_for(lambda: asked.reaction)
    assert [each.command for each in handler.calls[:-1]] == list(CALLED.values())
    assert {each.text for each in handler.calls[:-1]} == {"12"}
