"""Results find their way whatever the fake Telegram refuses; the whole bot, the real library."""

import asyncio
from pathlib import Path

from tests.bot.platforms.telegram.test_telegram_app import usher
from tests.fakes.telegram import FakeTelegram
from tests.fakes.telegram_state import FakeMessage, Limits


def done(message: FakeMessage) -> bool:
    return message.file is not None


async def test_a_group_that_becomes_a_supergroup_gets_its_result_there(tmp_path: Path) -> None:
    """The old notation of a group would swallow what was waited for in it."""
    go_on = asyncio.Event()
    async with FakeTelegram() as fake, usher(fake, tmp_path, go_on=go_on) as parts:
        group = fake.group(-5)
        fake.person(7).says("/image flux cat", chat=group)
        await fake.wait_for(lambda: group.from_bot)
        moved = fake.migrate(group, -1005)
        go_on.set()
        await fake.wait_for(lambda: any(map(done, moved.from_bot)))
        await parts.presenter.settle(10)
        assert await parts.queue.deliveries.unacknowledged() == []
        assert len(moved.from_bot) == 1


async def test_somebody_who_unblocks_the_bot_gets_the_result_with_the_next_call(
    tmp_path: Path,
) -> None:
    """A result made while the bot was blocked would be lost, or come an hour late."""
    go_on = asyncio.Event()
    async with FakeTelegram() as fake, usher(fake, tmp_path, go_on=go_on) as parts:
        person = fake.person(7)
        person.says("/image flux cat")
        await fake.wait_for(lambda: person.chat.from_bot)
        person.chat.refusal = (403, "Forbidden: bot was blocked by the user", {})
        go_on.set()
        while (await parts.queue.jobs.open_jobs()) != []:
            await fake.quiet()
        person.chat.refusal = None
        person.says("/queue")
        await fake.wait_for(lambda: any(map(done, person.chat.from_bot)))
        await parts.presenter.settle(10)
        assert await parts.queue.deliveries.unacknowledged() == []


async def test_a_message_somebody_deleted_ends_as_a_fresh_one(tmp_path: Path) -> None:
    """A person who tidies up would lose the picture."""
    go_on = asyncio.Event()
    async with FakeTelegram() as fake, usher(fake, tmp_path, go_on=go_on):
        person = fake.person(7)
        person.says("/image flux cat")
        [status] = await fake.wait_for(lambda: person.chat.from_bot)
        person.chat.messages.remove(status)
        go_on.set()
        await fake.wait_for(lambda: any(map(done, person.chat.from_bot)))
        assert len(person.chat.from_bot) == 1


async def test_a_group_without_the_right_to_pictures_gets_words(tmp_path: Path) -> None:
    """The message would say "drawing" for a day and then for ever."""
    async with FakeTelegram() as fake, usher(fake, tmp_path) as parts:
        group = fake.group()
        refusal = "Bad Request: not enough rights to send photos to the chat"
        fake.fail("editMessageMedia", status=400, text=refusal, times=100)
        fake.person(7).says("/image flux cat", chat=group)
        await fake.wait_for(lambda: group.from_bot and "/show 1" in group.from_bot[0].shown)
        await parts.presenter.settle(10)
        assert await parts.queue.deliveries.unacknowledged() == []


async def test_a_busy_group_stays_within_its_minute(tmp_path: Path) -> None:
    """A group of busy people would be answered with penalties instead of pictures."""
    limits = Limits()
    async with FakeTelegram(limits=limits) as fake, usher(fake, tmp_path, picture_s=1.0):
        group = fake.group()
        for number in range(4):
            fake.person(7 + number).says("/image flux cat", chat=group)
        # On a busy machine edits may use up the minute, and the last picture waits for the next.
        await fake.wait_for(
            lambda: len([each for each in group.from_bot if done(each)]) == 4, timeout_s=240
        )
        assert limits.refused == {}
