"""The whole bot as the security tests meet it: real platforms, queue and store, demo servers."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from bot import config as configuration
from bot.app import Parts, build
from tests.fakes.discord import FakeDiscord
from tests.fakes.telegram import FakeTelegram

CONFIG = """
hosts:
  gpu-1:
    vram: 24GB
    backends:
      studio: {kind: demo}
models:
  flux: {backends: [studio], capabilities: [text-to-image], load_s: 0.01, service_s: 0.05}
  llama: {backends: [studio], capabilities: [text-to-text], load_s: 0.01, service_s: 0.05}
admins: ["telegram:1", "discord:1"]
chats:
  CHATS
"""


@asynccontextmanager
async def on_telegram(
    fake: FakeTelegram, folder: Path, settings: str = "", *, more: str = ""
) -> AsyncIterator[Parts]:
    """Run the bot on a fake Telegram; `settings` are further ones of the chat, `more` of the rest."""
    chat = f'{{token: "${{TOKEN}}", api_url: "{fake.url}"{settings}}}'
    polls = fake.api.polls
    async with _usher(f"telegram: {chat}", more, {"TOKEN": fake.token}, folder) as parts:
        await fake.wait_for(lambda: fake.api.polls > polls)
        yield parts


@asynccontextmanager
async def on_discord(
    fake: FakeDiscord, folder: Path, settings: str = "", *, more: str = ""
) -> AsyncIterator[Parts]:
    """Run the bot on a fake Discord, likewise."""
    chat = f'{{token: "${{TOKEN}}"{settings}}}'
    async with _usher(f"discord: {chat}", more, {"TOKEN": fake.token}, folder) as parts:
        await fake.connected()
        yield parts


@asynccontextmanager
async def _usher(
    chat: str, more: str, environ: Mapping[str, str], folder: Path
) -> AsyncIterator[Parts]:
    text = CONFIG.replace("CHATS", chat) + more
    app = build(configuration.parse(text, environ), database_url=f"sqlite:///{folder}/usher.sqlite")
    async with app.running() as parts, asyncio.TaskGroup() as group:
        working = group.create_task(parts.queue.run())
        yield parts
        working.cancel()
