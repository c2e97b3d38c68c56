"""The whole bot from its configuration: real platforms, queue and store, demo servers."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from backends.demo import images
from bot.app.app import App, BotParts
from bot.app.setup import BotSetup
from bot.config import loader as configuration
from bot.platforms.web.platform import Web
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.telegram.telegram import FakeTelegram

DRAWS_AND_WRITES = """
hosts:
  gpu-1:
    vram: 24GB
    backends:
      studio: {kind: demo}
models:
  flux:
    backends: [studio]
    capabilities: [text-to-image]
    vram: 17GB
    parallel: 1
    load_s: 0.1
    service_s: IMAGE_S
  llama:
    backends: [studio]
    capabilities: [text-to-text, vision]
    vram: 7GB
    load_s: 0.1
    service_s: 0.3
"""


@asynccontextmanager
async def on_discord(
    fake: FakeDiscord, folder: Path, text: str, *, go_on: asyncio.Event | None = None
) -> AsyncIterator[BotParts]:
    """Run the bot of a configuration, which knows `DISCORD_TOKEN`, until the block ends.

    Before `go_on` is set, no image is drawn, so that a test has all the time it needs.
    """
    with _held(go_on):
        async with _usher(text, {"DISCORD_TOKEN": fake.token}, folder) as parts:
            await fake.connected()
            yield parts


@asynccontextmanager
async def on_telegram(
    fake: FakeTelegram, folder: Path, text: str, *, go_on: asyncio.Event | None = None
) -> AsyncIterator[BotParts]:
    """Do the same on Telegram; the configuration knows `TELEGRAM_TOKEN` and `TELEGRAM_API`."""
    polls = fake.api.polls
    environ = {"TELEGRAM_TOKEN": fake.token, "TELEGRAM_API": fake.url}
    with _held(go_on):
        async with _usher(text, environ, folder) as parts:
            await fake.wait_for(lambda: fake.api.polls > polls)
            yield parts


@asynccontextmanager
async def on_web(
    folder: Path, text: str, *, page: str = "{port: 0}"
) -> AsyncIterator[tuple[str, BotParts]]:
    """Run the bot of a configuration with a page; yield the page's address as well."""
    async with _usher(f"{text}\nchats: {{web: {page}}}\n", {}, folder) as parts:
        (web,) = parts.platforms
        assert isinstance(web, Web)
        await web.connected.wait()
        yield web.url, parts


@contextmanager
def _held(go_on: asyncio.Event | None) -> Iterator[None]:
    draw = images.draw

    async def waits(*given: Any) -> Any:
        if go_on is not None:
            await go_on.wait()
        return await draw(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("backends.demo.backend.draw", waits)
        yield


@asynccontextmanager
async def _usher(text: str, environ: Mapping[str, str], folder: Path) -> AsyncIterator[BotParts]:
    app = App(
        BotSetup(
            configuration.parse(text, environ), database_url=f"sqlite:///{folder}/usher.sqlite"
        )
    )
    async with app.running() as parts, asyncio.TaskGroup() as group:
        working = group.create_task(parts.queue.run())
        yield parts
        working.cancel()
