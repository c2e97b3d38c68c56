"""Talking to the bot on Discord without a command: by mention, by reply, in direct messages."""

from pathlib import Path
from typing import Any

import pytest

from tests.bot.platforms.discord.discord_bot import RecordingHandler, running
from tests.bot.platforms.discord.test_discord_app import usher
from tests.bot.platforms.discord.test_discord_simcord import simulated
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.discord.discord_json import message as message_shape
from tests.fakes.discord.discord_state import APPLICATION_ID, BOT_ROLE_ID, FakeMessage

ME = f"<@{APPLICATION_ID}>"


def answered(message: FakeMessage | None) -> bool:
    return message is not None and any("Regenerate" in each.label for each in message.buttons)


async def test_a_mention_asks_and_a_reply_to_the_answer_goes_on(tmp_path: Path) -> None:
    """People could not hold a conversation on Discord, but only ask single questions."""
    async with FakeDiscord() as fake, usher(fake, tmp_path) as parts:
        person, channel = fake.person(7, "Ada"), fake.channel()
        question = await person.says(f"{ME} why?")
        await fake.wait_for(lambda: answered(channel.messages[-1]))
        answer = channel.messages[-1]
        assert answer.reply_to == question.id
        assert "why?" in answer.shown
        await person.says("and why not?", reply_to=answer)
        await fake.wait_for(lambda: answered(channel.messages[-1]))
        job = await parts.queue.jobs.get(2)
        assert job is not None
        assert job.request.kind == "chat"
        assert [turn.text for turn in job.request.messages][-1] == "and why not?"
        assert len(job.request.messages) == 3


@pytest.mark.thorough
async def test_a_slash_commands_answer_is_continued_by_reply_and_mention(tmp_path: Path) -> None:
    """Discord would withhold the words of such a reply, and a mention would not help."""
    async with FakeDiscord() as fake, usher(fake, tmp_path) as parts:
        person, channel = fake.person(7), fake.channel()
        call = await person.slash("ask", model="llama", prompt="why?")
        await fake.wait_for(lambda: answered(call.answer))
        await person.says("lovely", reply_to=call.answer)
        await person.says(f"{ME} and why not?", reply_to=call.answer)
        await fake.wait_for(lambda: answered(channel.messages[-1]))
        job = await parts.queue.jobs.get(2)
        assert job is not None
        assert job.request.kind == "chat"
        assert len(job.request.messages) == 3
        assert await parts.queue.jobs.get(3) is None


async def test_a_mention_of_the_bots_role_is_answered_with_what_to_do(tmp_path: Path) -> None:
    """Discord often offers the role first, and a person who picks it would get no answer."""
    async with FakeDiscord() as fake, usher(fake, tmp_path) as parts:
        person, channel = fake.person(7), fake.channel()
        said = await person.says(f"<@&{BOT_ROLE_ID}> why?")
        await fake.wait_for(lambda: channel.messages[-1] is not said)
        assert "only mention my role" in channel.messages[-1].shown
        assert channel.messages[-1].reply_to == said.id
        assert await parts.queue.jobs.get(1) is None


async def test_a_direct_message_asks_without_a_command(tmp_path: Path) -> None:
    """A person who just writes to the bot would get no answer."""
    async with FakeDiscord() as fake, usher(fake, tmp_path):
        person = fake.person(7)
        await person.says("why?", in_channel=person.direct)
        await fake.wait_for(lambda: answered(person.direct.messages[-1]))
        assert "why?" in person.direct.messages[-1].shown


async def test_what_is_not_meant_for_the_bot_is_passed_over() -> None:
    """The bot would answer other people's talk, or comments on an image."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        person = fake.person(7)
        image = FakeMessage(
            id=fake.ids.new(),
            channel_id=fake.channel().id,
            content="a cat",
            files=[person.file("cat.png", b"\x89PNG")],
        )
        fake.channel().all_messages.append(image)
        await person.says("good morning")
        await person.says("lovely!", reply_to=image)
        await person.says("<@8> hello")
        await person.says(f"{ME} how was it drawn?", reply_to=image)
        call = await handler.called(2)
    heard = {each.text: each.to_words for each in handler.calls}
    assert heard == {"how was it drawn?": False, "lovely!": True}
    call = next(each for each in handler.calls if not each.to_words)
    assert call.command == "ask"
    assert call.replied_to is not None
    assert call.replied_to.message == str(image.id)


async def test_the_bare_name_asks_for_help_and_an_image_for_its_description() -> None:
    """The first thing a newcomer tries would be answered with a complaint about a missing text."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, running(fake, handler):
        person = fake.person(7)
        await person.says(ME)
        await person.says(f"{ME} /image flux a cat")
        await person.says(ME, person.file("cat.png", b"\x89PNG"))
        await handler.called(3)
    assert [(each.command, each.text) for each in handler.calls] == [
        ("help", ""),
        ("image", "flux a cat"),
        ("ask", ""),
    ]
    assert [len(each.files) for each in handler.calls] == [0, 0, 1]


async def test_a_mention_is_understood_on_simcord() -> None:
    """On an independent fake of Discord, a mention would not be received."""
    handler = RecordingHandler()
    async with simulated(handler) as (env, _chat):
        guild = env.create_guild()
        channel = guild.create_text_channel("talk")
        ada = guild.add_member(env.create_user("ada"))
        assert env.bot.user is not None
        await ada.send(channel, "good morning")
        await ada.send(channel, f"<@{env.bot.user.id}> why?")
        call = await handler.called()
    assert [each.text for each in handler.calls] == ["why?"]
    assert call.group
    assert call.within


async def test_a_forward_and_its_comment_are_one_question() -> None:
    """The forward would be answered without the question, and the question without the forward."""
    handler = RecordingHandler()
    async with FakeDiscord(check_specs=False) as fake, running(fake, handler):
        person = fake.person(7)
        shown = message_shape(person.write("I owe you 100."), fake.url)
        reference = {"type": 1, "message_id": "1", "channel_id": str(person.direct.id)}
        carries: dict[str, Any] = {
            "message_snapshots": [{"message": shown}],
            "message_reference": reference,
        }
        await person.says("", in_channel=person.direct, **carries)
        await person.says("is that so?", in_channel=person.direct)
        await person.says("and why?", in_channel=person.direct)
        await person.says("", in_channel=person.direct, **carries)
        await handler.called(3)
    told = [(call.text, [each.text for each in call.forwarded]) for call in handler.calls]
    words = ["I owe you 100."]
    assert sorted(told) == sorted([("is that so?", words), ("and why?", []), ("", words)])
