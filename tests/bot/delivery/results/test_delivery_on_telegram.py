"""Results reach people whatever the fake Telegram refuses; the whole bot, with the real library."""

from pathlib import Path

import pytest

from tests.bot.platforms.telegram.test_telegram_app import usher
from tests.fakes.telegram.telegram import FakeTelegram


@pytest.mark.thorough
async def test_a_group_without_the_right_to_images_gets_words(tmp_path: Path) -> None:
    """The message would say "drawing" for a day, and then forever."""
    async with FakeTelegram() as fake, usher(fake, tmp_path) as parts:
        group = fake.group()
        refusal = "Bad Request: not enough rights to send photos to the chat"
        fake.fail("editMessageMedia", status=400, text=refusal, times=100)
        fake.person(7).says("/image flux cat", chat=group)
        await fake.wait_for(lambda: group.from_bot and "/show 1" in group.from_bot[0].shown)
        await parts.presenter.settle(10)
        assert await parts.queue.deliveries.unacknowledged() == []
