"""Ids in what people write become names, whichever way a call comes."""

import re

from hypothesis import given
from hypothesis import strategies as st

from bot.commands.registry import COMMANDS
from bot.platforms.discord.names import PeopleSeen
from bot.platforms.discord.text.mentions import Names, readable
from tests.bot.platforms.discord.discord_bot import RecordingHandler, running
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.discord.discord_state import Fault

TEXTS = st.text(st.sampled_from("`<@!&#:t>8a/ \\\n"), max_size=60)


@given(TEXTS)
def test_whatever_is_no_mark_stays(text: str) -> None:
    """Code and comparisons in a question would be garbled."""
    read = readable(text, Names(person=lambda _: "X", role=lambda _: "X", channel=lambda _: "X"))
    if read == text:
        return
    assert "<" in text
    assert len(read.split("`")) == len(text.split("`"))


def test_many_backticks_are_read_at_once() -> None:
    """One message could block the bot."""
    ticks = " ".join("`" * (number % 90 + 1) for number in range(90))
    assert readable(f"{ticks} <@8>", Names(person=lambda _: "Bob")).endswith("@Bob")


def test_only_so_many_people_are_remembered() -> None:
    """A large server would fill the memory."""
    seen = PeopleSeen()
    for number in range(10_002):
        seen.note(1, {number: f"P{number}"})
    assert (seen.name(1, 1), seen.name(1, 10_001), seen.name(2, 10_001)) == (None, "P10001", None)


async def test_a_slash_command_names_who_was_seen_before() -> None:
    """A text with eighteen digits in place of a name would be read aloud, or drawn."""
    handler = RecordingHandler(commands=COMMANDS)
    async with FakeDiscord() as fake, running(fake, handler):
        await fake.person(8, "Bob").says("good morning")
        await fake.person(7).slash("image", prompt="<@8> with <:pepe:123456789012345678>")
        call = await handler.called()
        assert call.options["prompt"] == "@Bob with :pepe:"
        await fake.person(7).slash("ban", person="<@8>", reason="rude to <@8>")
        call = await handler.called(2)
    assert call.options == {"person": "<@8>", "reason": "rude to @Bob"}


async def test_a_slash_command_names_whom_the_bot_has_never_seen() -> None:
    """Discord does not describe people who are mentioned in an option's text."""
    handler = RecordingHandler(commands=COMMANDS)
    async with FakeDiscord() as fake, running(fake, handler):
        fake.person(8, "Bob")
        await fake.person(7).slash("speak", text="hello <@8> and <@99>")
        call = await handler.called()
        assert call.options["text"] == "hello @Bob and @unknown-user"
        fake.rest.faults.append(Fault(method="GET", path=re.compile("/guilds/.*"), times=9))
        await fake.person(7).slash("speak", text="hello <@98>")
        call = await handler.called(2)
    assert call.options["text"] == "hello @unknown-user"


async def test_a_menu_shows_the_names_in_a_message() -> None:
    """A question about a person's message would be about numbers."""
    handler = RecordingHandler(commands=COMMANDS)
    async with FakeDiscord() as fake, running(fake, handler):
        message = fake.person(8, "Bob").write("I am <@8>")
        await fake.person(7).open_menu(message, "menu.ask_about")
        call = await handler.called()
    assert call.quoted == "I am @Bob"
