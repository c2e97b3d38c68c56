"""Results find their way whatever the fake Telegram refuses; the whole bot, the real library."""

import asyncio
from pathlib import Path

import pytest

from tests.bot.platforms.telegram.test_telegram_app import usher
from tests.fakes.telegram.telegram import FakeTelegram
from tests.fakes.telegram.telegram_state import FakeMessage


def done(message: FakeMessage) -> bool:
    return message.file is not None


@pytest.mark.thorough
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


@pytest.mark.thorough
async def test_a_group_without_the_right_to_images_gets_words(tmp_path: Path) -> None:
    """The message would say "drawing" for a day and then for ever."""
    async with FakeTelegram() as fake, usher(fake, tmp_path) as parts:
        group = fake.group()
        refusal = "Bad Request: not enough rights to send photos to the chat"
        fake.fail("editMessageMedia", status=400, text=refusal, times=100)
        fake.person(7).says("/image flux cat", chat=group)
        await fake.wait_for(lambda: group.from_bot and "/show 1" in group.from_bot[0].shown)
        await parts.presenter.settle(10)
        assert await parts.queue.deliveries.unacknowledged() == []
