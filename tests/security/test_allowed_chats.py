"""Calls from chats the operator did not let in are refused, anyone who makes them."""

from pathlib import Path

import pytest

from bot.config.load import ConfigError, parse
from tests.fakes.discord import FakeDiscord
from tests.fakes.discord_state import GUILD_ID
from tests.fakes.telegram import FakeTelegram
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
    """A group that was taken off the list could go on with the buttons it has."""
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
        (str(GUILD_ID), {"direct"}),
        ("100", {"thread", "direct"}),
        ("55", {"channel", "direct"}),
        ("1", {"channel", "direct"}),  # the thread's channel
    ],
)
async def test_discord_listens_to_listed_servers_channels_and_threads(
    allowed: str, expected: set[str], tmp_path: Path
) -> None:
    """Anyone could invite the bot to a server of theirs, or write to it, and use the GPUs."""
    async with FakeDiscord() as fake:
        thread = fake.add_channel(55, thread=True, parent=1)
        async with on_discord(fake, tmp_path, f", allow: [{allowed}]") as parts:
            person = fake.person(7)
            told = {}
            for name, channel in (("channel", None), ("thread", thread), ("direct", person.direct)):
                call = await person.slash("image", in_channel=channel, model="flux", prompt="cat")
                answer = await fake.wait_for(lambda call=call: call.answer)  # type: ignore[misc]
                assert answer is not None
                told[name] = answer.shown
            refused = {name for name, text in told.items() if REFUSED in text}
            assert refused == expected
            assert "using the id 7" in told["direct"]
            assert await parts.queue.jobs.get(4 - len(refused)) is None


async def test_discord_listens_to_listed_people_in_direct_messages(tmp_path: Path) -> None:
    """An admin could not reach their own bot in private once there is a list."""
    async with FakeDiscord() as fake, on_discord(fake, tmp_path, ", allow: [7]"):
        for person, refused in ((fake.person(7), False), (fake.person(8), True)):
            call = await person.slash("models", in_channel=person.direct)
            answer = await fake.wait_for(lambda call=call: call.answer)  # type: ignore[misc]
            assert answer is not None
            assert (REFUSED in answer.shown) is refused


@pytest.mark.parametrize("wrong", ["'@us'", "true", "1.5", "'https://t.me/us'"])
def test_a_chat_that_is_no_id_is_refused_at_the_start(wrong: str) -> None:
    """A name instead of an id would let no one in, or be anyone's to take."""
    text = written(f"telegram: {{token: x, allow: [{wrong}]}}")
    with pytest.raises(ConfigError, match="must be a chat's id, such as -100"):
        parse(text, {})
