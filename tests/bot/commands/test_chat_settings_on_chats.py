"""The operator's rules for a channel, a category or a server apply everywhere within it."""

from pathlib import Path

import pytest

from bot.app.app import BotParts
from queueing.core.requests import Chat
from tests.fakes.discord.discord import GENERAL, FakeDiscord
from tests.fakes.discord.discord_people import Person
from tests.fakes.discord.discord_state import APPLICATION_ID, GUILD_ID, Channel
from tests.fakes.telegram.telegram import FakeTelegram
from tests.security.bots import on_discord, on_telegram

CATEGORY, FORUM, THREAD, POST, ASLEEP = 40, 41, 55, 56, 57
REFUSED = "isn't allowed in this chat"


def rules(*places: str) -> str:
    """Return the settings of places, each identified by its own system text, word and spoiler."""
    lines = (
        f'  "{place}": {{system: at {place}, words: [dragon], spoiler: true}}' for place in places
    )
    return "\n".join(("rooms:", *lines, ""))


def installation(fake: FakeDiscord) -> dict[str, Channel]:
    """Set up a server: a channel and a forum in a category, with threads and a post."""
    fake.channel().parent = CATEGORY
    forum = fake.add_channel(FORUM, parent=CATEGORY, forum=True)
    return {
        "channel": fake.channel(),
        "thread": fake.add_channel(THREAD, thread=True),
        "post": fake.add_channel(POST, thread=True, parent=forum.id),
        "asleep": fake.add_channel(ASLEEP, thread=True, told=False),
        "another": fake.add_channel(60),
    }


async def refused(fake: FakeDiscord, person: Person, channel: Channel) -> tuple[bool, bool]:
    """Return whether an unwanted word is refused there, both in a command and in a mention."""
    call = await person.slash("image", in_channel=channel, model="flux", prompt="a dragon")
    answer = await fake.wait_for(lambda: call.answer)
    assert answer is not None
    before = len(channel.messages)
    await person.says(f"<@{APPLICATION_ID}> what is a dragon?", in_channel=channel)
    await fake.wait_for(lambda: len(channel.messages) >= before + 2)
    return REFUSED in answer.shown, REFUSED in channel.messages[before + 1].shown


@pytest.mark.parametrize(
    ("place", "held"),
    [
        (CATEGORY, {"channel", "thread", "asleep", "post"}),
        *(
            pytest.param(place, held, marks=pytest.mark.thorough)
            for place, held in (
                (GENERAL, {"channel", "thread", "asleep"}),
                (THREAD, {"thread"}),
                (FORUM, {"post"}),
                (POST, {"post"}),
                (GUILD_ID, {"channel", "thread", "asleep", "post", "another"}),
            )
        ),
    ],
)
async def test_words_hold_in_everything_a_place_is_made_of(
    place: int, held: set[str], tmp_path: Path
) -> None:
    """A thread, which everyone may open, would be a way round a channel's rules."""
    async with FakeDiscord() as fake:
        channels = installation(fake)
        async with on_discord(fake, tmp_path, more=rules(f"discord:{place}")):
            found = {
                name: await refused(fake, fake.person(7), each) for name, each in channels.items()
            }
    assert found == {name: (name in held,) * 2 for name in channels}


async def test_the_nearest_rules_are_told_to_the_model(tmp_path: Path) -> None:
    """A server's system text would be used in a thread that has its own."""
    async with FakeDiscord() as fake:
        channels = installation(fake)
        places = (f"discord:{each}" for each in (GUILD_ID, CATEGORY, GENERAL, POST))
        async with on_discord(fake, tmp_path, more=rules(*places)) as parts:
            asked = {}
            for number, (name, channel) in enumerate(channels.items(), 1):
                call = await fake.person(7).slash("ask", in_channel=channel, prompt="why?")
                await fake.wait_for(lambda call=call: call.answer)  # type: ignore[misc]
                asked[name] = await told(parts, number)
    assert asked == {
        "channel": f"at discord:{GENERAL}",
        "thread": f"at discord:{GENERAL}",
        "asleep": f"at discord:{GENERAL}",
        "post": f"at discord:{POST}",
        "another": f"at discord:{GUILD_ID}",
    }


async def told(parts: BotParts, job_id: int) -> str:
    """Return the system text that a question was sent with."""
    job = await parts.queue.jobs.get(job_id)
    assert job is not None
    assert isinstance(job.request, Chat)
    return "".join(turn.text for turn in job.request.messages if turn.role == "system")


async def test_images_are_hidden_in_a_thread_also_after_a_restart(tmp_path: Path) -> None:
    """After a restart, the bot would not know a thread's channel, and show hidden images."""
    async with FakeDiscord() as fake:
        channels, more = installation(fake), rules(f"discord:{GENERAL}")
        thread, another = channels["thread"], channels["another"]
        async with on_discord(fake, tmp_path, more=more) as parts:
            await fake.person(1).slash("pause", model="flux")
            for channel in (thread, another):
                await fake.person(7).slash("image", in_channel=channel, prompt="a cat")
            await fake.wait_for(lambda: thread.messages and another.messages)
            assert len(await parts.queue.jobs.open_jobs(None)) == 2
        async with on_discord(fake, tmp_path, more=more):
            await fake.person(1).slash("resume", model="flux")
            await fake.wait_for(lambda: thread.messages[-1].files and another.messages[-1].files)
        assert thread.messages[-1].files[0].name.startswith("SPOILER_")
        assert not another.messages[-1].files[0].name.startswith("SPOILER_")


@pytest.mark.thorough
async def test_a_topic_has_its_groups_rules_or_its_own(tmp_path: Path) -> None:
    """A topic would be a way round a group's rules."""
    more = rules("telegram:-1001", "telegram:-1001/6")
    async with FakeTelegram() as fake, on_telegram(fake, tmp_path, more=more) as parts:
        forum, person = fake.group(-1001, forum=True), fake.person(7)
        for number, thread in enumerate((None, 5, 6), 1):
            person.says("/ask why?", chat=forum, thread=thread)
            await fake.wait_for(lambda number=number: len(forum.from_bot) == number)  # type: ignore[misc]
        assert [await told(parts, number) for number in (1, 2, 3)] == [
            "at telegram:-1001",
            "at telegram:-1001",
            "at telegram:-1001/6",
        ]
        person.says("/image a dragon", chat=forum, thread=5)
        await fake.wait_for(lambda: REFUSED in forum.from_bot[-1].shown)
        person.says("/image a cat", chat=forum, thread=5)
        await fake.wait_for(lambda: forum.from_bot[-1].file)
        assert forum.from_bot[-1].spoiler
