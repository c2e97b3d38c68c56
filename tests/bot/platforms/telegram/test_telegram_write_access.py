"""Groups in which the bot may not write: no call there becomes work."""

from pathlib import Path

from telegram import Bot

from bot.core.errors import ChatGone
from bot.platforms.telegram.write_access import FRESH_S, WriteAccess
from tests.bot.platforms.telegram.test_telegram_app import done, usher
from tests.fakes.telegram.telegram import FakeTelegram

MENTION = "@usher_test_bot"


def sends(fake: FakeTelegram) -> int:
    return sum(each.method == "sendMessage" for each in fake.api.requests)


async def test_a_call_where_the_bot_is_muted_makes_no_work(tmp_path: Path) -> None:
    """A GPU would work for minutes on what nobody can see, and 👀 promise it."""
    async with FakeTelegram() as fake, usher(fake, tmp_path) as parts:
        person, group = fake.person(7), fake.group()
        fake.mute(group, "bot")
        texts = ("/image flux cat", f"{MENTION} hello")
        asked = [person.says(text, chat=group) for text in texts]
        await fake.wait_for(lambda: sends(fake) == len(asked))
        await fake.quiet()
        assert [each.reaction for each in asked] == ["", ""]
        assert await parts.queue.jobs.get(1) is None
        fake.mute(group, "")
        person.says("/image flux cat", chat=group)
        await fake.wait_for(lambda: any(map(done, group.from_bot)))


async def test_a_refused_message_tells_that_nobody_may_write(tmp_path: Path) -> None:
    """Telegram does not report a group's own restriction: each mention would become work."""
    async with FakeTelegram() as fake, usher(fake, tmp_path) as parts:
        person, group = fake.person(7), fake.group()
        fake.mute(group, "everyone")
        person.says("/image flux cat", chat=group)
        await fake.wait_for(lambda: sends(fake))
        person.says("/image flux dog", chat=group)
        await fake.wait_for(lambda: sends(fake) > 1)
        await fake.quiet()
        assert await parts.queue.jobs.get(2) is None
        person.says("/image flux cat")  # in private
        await fake.wait_for(lambda: any(map(done, person.chat.from_bot)))


async def test_telegram_is_asked_whether_it_still_is_so() -> None:
    """The bot would stay silent for ever, or ask before each answer in every group."""
    async with FakeTelegram() as fake:
        group = fake.group()
        now = 0.0
        known = WriteAccess(lambda: now)
        bot = Bot(fake.token, base_url=fake.base_url)
        async with bot:

            async def lacking() -> bool:
                return bool(await known.lacking(bot, group.id))

            assert not await lacking()
            for who in ("everyone", "bot"):
                fake.mute(group, who)
                known.refused(group.id, ChatGone("Bad Request: CHAT_WRITE_FORBIDDEN"))
                asked = len(fake.api.requests)
                assert await lacking()
                assert len(fake.api.requests) == asked
                now += FRESH_S
                assert await lacking()
                assert len(fake.api.requests) > asked
                fake.mute(group, "")
                assert await lacking()  # asked just now
                now += FRESH_S
                assert not await lacking()
            known.refused(group.id, ChatGone("Forbidden: bot was blocked by the user"))
            assert not await lacking()
