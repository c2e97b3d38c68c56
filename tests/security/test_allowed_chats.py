"""Calls from chats the operator did not allow are refused, whoever makes them."""

from pathlib import Path

import pytest

from bot.config.loader import ConfigError, parse
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.discord.discord_state import GUILD_ID
from tests.fakes.telegram.telegram import FakeTelegram
from tests.security.bots import on_discord, on_telegram, written

REFUSED = "n't open to this chat"


async def test_telegram_listens_to_the_listed_chats_only(tmp_path: Path) -> None:
    """Anyone could add the bot to a group of theirs, or write to it, and use the GPUs."""
    async with (
        FakeTelegram() as fake,
        on_telegram(fake, tmp_path, ", allow: [-1001, 7]") as parts,
    ):
        ours, theirs = fake.group(-1001), fake.group(-1002)
        friend, stranger, admin = fake.person(7), fake.person(8), fake.person(1)
        stranger.says("/image flux cat", chat=ours)
        await fake.wait_for(lambda: ours.from_bot)
        friend.says("/image flux cat")
        await fake.wait_for(lambda: friend.chat.from_bot)
        for chat in (theirs, stranger.chat):
            stranger.says("/image flux cat", chat=chat)
            await fake.wait_for(lambda chat=chat: chat.from_bot)  # type: ignore[misc]
            assert REFUSED in chat.from_bot[0].shown
            assert str(chat.id) in chat.from_bot[0].shown  # what the operator would have to add
        admin.says("/queue all", chat=theirs)
        await fake.wait_for(lambda: len(theirs.from_bot) == 2)
        assert REFUSED in theirs.from_bot[1].shown
        assert await parts.queue.jobs.get(2) is not None
        assert await parts.queue.jobs.get(3) is None


async def test_a_button_in_a_chat_that_was_let_in_before_is_refused(tmp_path: Path) -> None:
    """A group that was removed from the list could go on with the buttons it has."""
    async with FakeTelegram() as fake:
        group, person = fake.group(-1002), fake.person(8)
        async with on_telegram(fake, tmp_path):
            person.says("/image flux cat", chat=group)
            await fake.wait_for(lambda: group.from_bot and group.from_bot[0].file)
            await fake.quiet()
        async with on_telegram(fake, tmp_path, ", allow: [-1001]") as parts:
            press = person.presses(group.from_bot[0], group.from_bot[0].buttons[0].label)
            await fake.wait_for(lambda: press.answered)
            assert REFUSED in (press.alert or "")
            assert await parts.queue.jobs.get(2) is None


async def test_topics_belong_to_their_group(tmp_path: Path) -> None:
    """An allowed forum would be refused in all topics but the first."""
    async with FakeTelegram() as fake, on_telegram(fake, tmp_path, ", allow: [-1001]"):
        forum = fake.group(-1001, forum=True)
        fake.person(7).says("/models", chat=forum, thread=5)
        await fake.wait_for(lambda: forum.from_bot)
        assert REFUSED not in forum.from_bot[0].shown


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        (str(GUILD_ID), {"direct of 7", "direct of 8"}),
        ("100, 55, 2, 7", {"other channel", "thread of another", "direct of 8"}),
    ],
    ids=["server", "places"],
)
async def test_discord_listens_to_listed_servers_channels_and_threads(
    allowed: str, expected: set[str], tmp_path: Path
) -> None:
    """Anyone could invite the bot to a server of theirs, or write to it, and use the GPUs."""
    async with FakeDiscord() as fake:
        person, other = fake.person(7), fake.person(8)
        places = {
            "channel": fake.channel(),
            "other channel": fake.add_channel(101),
            "thread": fake.add_channel(55, thread=True, parent=1),
            "thread of a listed channel": fake.add_channel(56, thread=True, parent=2),
            "thread of another": fake.add_channel(57, thread=True, parent=3),
            "direct of 7": person.direct,
            "direct of 8": other.direct,
        }
        told = {}
        async with on_discord(fake, tmp_path, f", allow: [{allowed}]") as parts:
            for name, channel in places.items():
                who = other if channel is other.direct else person
                call = await who.slash("image", in_channel=channel, model="flux", prompt="cat")
                answer = await fake.wait_for(lambda call=call: call.answer)  # type: ignore[misc]
                assert answer is not None
                told[name] = answer.shown
            assert await parts.queue.jobs.get(1 + len(places) - len(expected)) is None
    assert {name for name, text in told.items() if REFUSED in text} == expected
    assert "using the id 8" in told["direct of 8"]


def test_a_chat_that_is_no_id_is_refused_at_the_start() -> None:
    """A name instead of an id would let no one in, or could be taken by anyone."""
    for wrong in ("'@us'", "true", "1.5", "'https://t.me/us'"):
        with pytest.raises(ConfigError, match="must be a chat's id, such as -100"):
            parse(written(f"telegram: {{token: 1:x, api_url: http://x, allow: [{wrong}]}}"), {})
