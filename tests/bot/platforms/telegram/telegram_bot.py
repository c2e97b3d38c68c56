"""Shared by the Telegram tests: a bot that runs with the fake."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from PIL import Image

from bot.core.platform import ChatPlatform, CommandHandler
from bot.platforms.telegram.platform import Telegram
from queueing.core.requests import File
from tests.fakes.telegram.telegram import FakeTelegram


def telegram(fake: FakeTelegram, **how: Any) -> Telegram:
    return Telegram(fake.token, base_url=fake.base_url, base_file_url=fake.base_file_url, **how)


@asynccontextmanager
async def running(
    fake: FakeTelegram, handler: CommandHandler, platform: Telegram | None = None
) -> AsyncIterator[Telegram]:
    """Provide a bot that receives from the fake, and stop it."""
    chat = platform or telegram(fake)
    as_everybody_sees_it: ChatPlatform = chat  # checked by mypy
    assert as_everybody_sees_it.name
    polled = fake.api.polls
    task = asyncio.create_task(chat.run(handler))
    try:
        await fake.wait_for(lambda: fake.api.polls > polled)
        yield chat
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def image(width: int = 8, height: int = 8, kind: str = "PNG") -> File:
    out = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(out, kind)
    return File(name=f"cat.{kind.lower()}", mime=f"image/{kind.lower()}", data=out.getvalue())
