"""The whole bot on the fake chats: some people's results are only shown to them, also in groups."""

import asyncio
from pathlib import Path

import pytest

from tests.bot.whole_bot import DRAWS_AND_WRITES, on_discord, on_telegram
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.discord.discord_state import APPLICATION_ID, FakeMessage
from tests.fakes.telegram.telegram import FakeTelegram

RULES = """
rules:
  - {who: ["discord:7", "telegram:7"], private: true}
  - {}
"""
ON_DISCORD = f"""
{DRAWS_AND_WRITES.replace("IMAGE_S", "0.3")}
chats: {{discord: {{token: "${{DISCORD_TOKEN}}"}}}}
{RULES}
"""
ON_TELEGRAM = f"""
{DRAWS_AND_WRITES.replace("IMAGE_S", "0.3")}
chats: {{telegram: {{token: "${{TELEGRAM_TOKEN}}", api_url: "${{TELEGRAM_API}}"}}}}
{RULES}
"""


def ended(message: FakeMessage | None) -> bool:
    return message is not None and any("again" in each.custom_id for each in message.buttons)


async def test_a_command_on_discord_is_answered_to_its_caller_alone(tmp_path: Path) -> None:
    """Everybody in the channel would see what a rule reserves for one person."""
    async with FakeDiscord() as fake, on_discord(fake, tmp_path, ON_DISCORD):
        person, other, channel = fake.person(7), fake.person(8), fake.channel()
        drawn = await person.slash("image", model="flux", prompt="cat")
        await fake.wait_for(lambda: ended(drawn.answer))
        assert drawn.answer is not None
        assert drawn.answer.files
        again = await person.click(drawn.answer, "🔄 Again")
        await fake.wait_for(lambda: again.followups and ended(again.answer))
        history = await person.slash("history")
        await fake.wait_for(lambda: history.answer)
        shown = await person.slash("show", id="1")
        await fake.wait_for(lambda: shown.answer and shown.answer.files)
        assert channel.messages == person.direct.messages == []
        told = await other.slash("image", model="flux", prompt="cat")
        await fake.wait_for(lambda: ended(told.answer))
        assert len(channel.messages) == 1


async def test_a_result_on_discord_that_comes_late_is_a_direct_message(tmp_path: Path) -> None:
    """After fifteen minutes it would be lost, or posted for everyone."""
    go_on = asyncio.Event()
    async with FakeDiscord() as fake, on_discord(fake, tmp_path, ON_DISCORD, go_on=go_on):
        person = fake.person(7)
        asked = await person.slash("image", model="flux", prompt="cat")
        await fake.wait_for(lambda: asked.answer)
        fake.later(1000)
        go_on.set()
        await fake.wait_for(lambda: any(map(ended, person.direct.messages)))
        assert fake.channel().messages == []


async def test_a_mention_on_discord_is_answered_by_a_direct_message(tmp_path: Path) -> None:
    """Discord has no private answers to messages."""
    async with FakeDiscord() as fake, on_discord(fake, tmp_path, ON_DISCORD):
        person, channel = fake.person(7), fake.channel()
        asked = await person.says(f"<@{APPLICATION_ID}> why?")
        await fake.wait_for(lambda: any(map(ended, person.direct.messages)))
        assert channel.messages == [asked]
        person.direct.refusal = (403, 50007)
        again = await person.says(f"<@{APPLICATION_ID}> /image flux cat")
        await fake.wait_for(lambda: len(channel.messages) == 3)
        assert "slash command" in channel.messages[-1].content
        assert channel.messages[-1].reply_to == again.id


async def test_a_request_in_a_telegram_group_is_answered_in_private(tmp_path: Path) -> None:
    """The group would see what a rule reserves for one person."""
    async with FakeTelegram() as fake, on_telegram(fake, tmp_path, ON_TELEGRAM):
        person, group = fake.person(7), fake.group()
        asked = person.says("/image flux cat", chat=group)
        await fake.wait_for(lambda: any(each.file for each in person.chat.from_bot))
        result = person.chat.from_bot[-1]
        await fake.wait_for(lambda: result.buttons)
        person.presses(result, "🔄 Again")
        person.says("/history", chat=group)
        await fake.wait_for(lambda: sum(bool(each.file) for each in person.chat.from_bot) == 2)
        await fake.wait_for(lambda: any("cat" in each.text for each in person.chat.from_bot))
        assert asked.reaction == "👀"
        assert group.from_bot == []


@pytest.mark.parametrize(
    "refusal", ["Forbidden: bot can't initiate conversation with a user", "PEER_ID_INVALID"]
)
async def test_who_has_not_started_the_bot_on_telegram_is_told_how(
    tmp_path: Path, refusal: str
) -> None:
    """An accepted job would have no place for its result."""
    async with FakeTelegram() as fake, on_telegram(fake, tmp_path, ON_TELEGRAM) as parts:
        person, group = fake.person(7), fake.group()
        person.chat.refusal = (403 if "Forbidden" in refusal else 400, refusal, {})
        person.says("/image flux cat", chat=group)
        await fake.wait_for(lambda: group.from_bot)
        assert "press Start" in group.from_bot[-1].text
        assert "https://t.me/" in group.from_bot[-1].text
        assert not await parts.queue.jobs.open_jobs("telegram:7")
        assert person.chat.from_bot == []
        person.says("/help", chat=group)
        await fake.wait_for(lambda: len(group.from_bot) == 2)
