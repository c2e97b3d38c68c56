"""Real python-telegram-bot with a fake Bot API: 👀 below a request in a group."""

from tests.bot.platforms.discord.discord_bot import RecordingHandler
from tests.bot.platforms.telegram.telegram_bot import running
from tests.fakes.telegram.telegram import FakeTelegram


def _reacted(fake: FakeTelegram) -> int:
    return sum(each.method == "setMessageReaction" for each in fake.api.requests)


async def _reacted_elsewhere(fake: FakeTelegram) -> None:
    """Wait until the bot has reacted to a later request in another group."""
    asked = fake.person(7).says("/image dog", chat=fake.group(-1002))
    await fake.wait_for(lambda: asked.reaction)


async def test_a_request_in_a_group_is_seen_before_it_is_answered() -> None:
    """In a crowded group nobody would know for a while whether the bot has read their request."""
    async with FakeTelegram() as fake, running(fake, RecordingHandler()):
        person, group = fake.person(7), fake.group()
        others = [person.says("/image cat"), person.says("/queue", chat=group)]
        asked = person.says("/image cat", chat=group)
        await fake.wait_for(lambda: asked.reaction == "👀")
        await fake.quiet()
        assert [each.reaction for each in others] == ["", ""]
        assert not group.from_bot


async def test_a_group_without_the_reaction_is_left_alone() -> None:
    """Each request would be refused again, and a refusal could cost the call."""
    async with FakeTelegram() as fake, running(fake, RecordingHandler()):
        person, group = fake.person(7), fake.group()
        group.reactions = frozenset("👍")
        person.says("/image cat", chat=group)
        await fake.wait_for(lambda: _reacted(fake))
        await _reacted_elsewhere(fake)
        person.says("/image dog", chat=group)
        await _reacted_elsewhere(fake)
        assert _reacted(fake) == 3


async def test_a_flood_and_a_deleted_request_do_not_end_reactions() -> None:
    """A deleted request would end all reactions in its group, or Telegram's pauses be ignored."""
    async with FakeTelegram() as fake, running(fake, RecordingHandler()):
        person, group = fake.person(7), fake.group()
        fake.fail("setMessageReaction", status=400, text="Bad Request: message to react not found")
        person.says("/image cat", chat=group)
        await fake.wait_for(lambda: _reacted(fake))
        asked = person.says("/image dog", chat=group)
        await fake.wait_for(lambda: asked.reaction)
        flood = {"retry_after": 40}
        fake.fail("setMessageReaction", status=429, text="Too Many Requests", parameters=flood)
        person.says("/image owl", chat=group)
        await fake.wait_for(lambda: _reacted(fake) == 3)
        await _reacted_elsewhere(fake)
        person.says("/image elk", chat=group)
        await _reacted_elsewhere(fake)
        assert _reacted(fake) == 5
