"""The whole bot for the security tests: on one chat, with an admin and two quick models."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from bot.app.app import BotParts
from tests.bot import whole_bot
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.telegram.telegram import FakeTelegram

CONFIG = """
hosts:
  gpu-1:
    vram: 24GB
    backends:
      studio: {kind: demo}
models:
  flux: {backends: [studio], capabilities: [text-to-image], load_s: 0.01, service_s: 0.05}
  llama: {backends: [studio], capabilities: [text-to-text], load_s: 0.01, service_s: 0.05}
ADMINS
chats:
  CHATS
"""


USUAL_ADMINS = ("telegram:1", "discord:1")


def written(chat: str, admins: Sequence[str] = USUAL_ADMINS) -> str:
    """Return a configuration with this chat and these admins."""
    listed = ", ".join(f'"{each}"' for each in admins)
    return CONFIG.replace("CHATS", chat).replace("ADMINS", f"admins: [{listed}]")


@asynccontextmanager
async def on_telegram(
    fake: FakeTelegram,
    folder: Path,
    settings: str = "",
    *,
    more: str = "",
    admins: Sequence[str] = USUAL_ADMINS,
) -> AsyncIterator[BotParts]:
    """Run the bot on a fake Telegram; `settings` are more of the chat's, `more` are of the rest."""
    chat = f'telegram: {{token: "${{TELEGRAM_TOKEN}}", api_url: "${{TELEGRAM_API}}"{settings}}}'
    async with whole_bot.on_telegram(fake, folder, written(chat, admins) + more) as parts:
        yield parts


@asynccontextmanager
async def on_discord(
    fake: FakeDiscord,
    folder: Path,
    settings: str = "",
    *,
    more: str = "",
    admins: Sequence[str] = USUAL_ADMINS,
) -> AsyncIterator[BotParts]:
    """Run the bot on a fake Discord in the same way."""
    chat = f'discord: {{token: "${{DISCORD_TOKEN}}"{settings}}}'
    async with whole_bot.on_discord(fake, folder, written(chat, admins) + more) as parts:
        yield parts
