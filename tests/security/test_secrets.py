"""Known tokens go in; nothing that anyone can read contains them."""

import asyncio
import base64
import io
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

import bot.platforms.telegram.platform  # noqa: F401  # which calms its libraries when it is read
from bot.app import logs
from bot.app.app import App, BotParts
from bot.app.setup import BotSetup
from bot.cli import check
from bot.config import loader as configuration
from bot.platforms.web.platform import Web
from tests.bot.people.test_invites import everything_in
from tests.bot.platforms.web.web_client import tab
from tests.fakes.discord import discord_state
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.llm.llm import Model, serving
from tests.fakes.telegram import telegram_state
from tests.fakes.telegram.telegram import FakeTelegram

CANARIES = {
    "DISCORD_TOKEN": "canary.discord.not-even-shaped-like-one",
    "TELEGRAM_TOKEN": "4242424242:canary-telegram-token-0123456789",
    "WEB_TOKEN": "canary-web-token-of-the-page",
    "COMFY_TOKEN": "canary-comfy/with+signs=",
    "LLM_TOKEN": "canary-llm-token",
    "PASSWORD": "canary%20password",
}
CONFIG = """
hosts:
  gpu-1:
    vram: 24GB
    backends:
      comfy: {kind: comfyui, url: "http://ada:${PASSWORD}@127.0.0.1:9", token: "${COMFY_TOKEN}"}
      llm: {kind: openai, url: "http://ada:${PASSWORD}@127.0.0.1:LLM_PORT", token: "${LLM_TOKEN}"}
models:
  flux: {backends: [comfy], workflow: sdxl.json, values: {checkpoint: a.ckpt}, max_attempts: 1}
  llama: {backends: [llm], load_s: 0.1, service_s: 0.1}
chats:
  discord: {token: "${DISCORD_TOKEN}"}
  telegram: {token: "${TELEGRAM_TOKEN}", api_url: "TELEGRAM_URL"}
  web: {port: 0, token: "${WEB_TOKEN}"}
admins: ["telegram:1"]
logging: {level: debug}
"""


def spellings() -> set[str]:
    """Return every token as it is, as addresses write it, and as a header contains it."""
    found = set(CANARIES.values()) | {quote(each, safe="") for each in CANARIES.values()}
    found |= {"canary password", "canary"}
    return found | {base64.b64encode(b"ada:canary password").decode()}


@asynccontextmanager
async def everywhere() -> AsyncIterator[tuple[FakeTelegram, FakeDiscord, str]]:
    """Run the neighbours; yields the configuration that names them."""
    async with (
        FakeTelegram(token=CANARIES["TELEGRAM_TOKEN"]) as telegram,
        FakeDiscord(token=CANARIES["DISCORD_TOKEN"]) as discord,
        serving("llamacpp", [Model("llama")]) as llm,
    ):
        text = CONFIG.replace("TELEGRAM_URL", telegram.url)
        yield telegram, discord, text.replace("LLM_PORT", llm.url.rpartition(":")[2])


def said(telegram: FakeTelegram, discord: FakeDiscord) -> str:
    """Return all text in the chats."""
    on_telegram = telegram_state.transcript(telegram.api.chats.values())
    return on_telegram + discord_state.transcript(iter(discord.rest.channels.values()))


@asynccontextmanager
async def working(parts: BotParts) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        queue = group.create_task(parts.queue.run())
        yield
        queue.cancel()


@pytest.mark.parametrize(
    "form", ["text", pytest.param("json", marks=pytest.mark.thorough)], ids=["text", "JSON"]
)
async def test_no_output_of_a_run_holds_a_secret(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A token would be in the log, a chat, the database, or the output of check."""
    async with everywhere() as (telegram, discord, text):
        config = configuration.parse(text, CANARIES, folder=tmp_path)
        log = io.StringIO()
        logs.set_up(
            level="debug",
            form="json" if form == "json" else "text",
            secrets=config.secrets(),
            stream=log,
        )
        # As a person in search of a fault might: then redaction is all there is.
        for library in logs.CHATTY:
            logging.getLogger(library).setLevel(logging.DEBUG)
        app = App(BotSetup(config, database_url=f"sqlite:///{tmp_path}/usher.sqlite"))
        shown = []
        async with app.running() as parts, working(parts):
            (web,) = (each for each in parts.platforms if isinstance(each, Web))
            await web.connected.wait()
            await discord.connected()
            admin = telegram.person(1)
            for line in ("/status", "/models", "/ask llama why?", "/image flux cat", "/nonsense"):
                before = len(admin.chat.from_bot)
                admin.says(line)
                await telegram.wait_for(lambda b=before: admin.chat.from_bot[b:])  # type: ignore[misc]
            telegram.fail("sendMessage", status=500)
            telegram.fail("getUpdates", status=401)
            await discord.person(7).slash("ask", model="llama", prompt="why?")
            discord.fail("PATCH", "/channels/*/messages/*", status=500)
            async with tab(web, cookie=CANARIES["WEB_TOKEN"]) as page:
                await page.say("/status")
                shown.append(str(await page.next("messages")))
            async with tab(web, greet=False, cookie="wrong"):
                pass
            await telegram.wait_for(lambda: "cat sat" in said(telegram, discord), timeout_s=60)
        await check.report(config, try_s=5)
        shown += [said(telegram, discord), capsys.readouterr().out]
        files = everything_in(tmp_path)
        told = log.getvalue()
    assert "llama" in told, told
    assert logs.HIDDEN in told  # it had something to hide
    assert len(told) > 500
    for spelling in spellings():
        assert spelling not in told
        assert spelling not in "\n".join(shown)
        assert spelling.encode() not in files


async def test_a_configuration_that_is_shown_shows_no_secret(tmp_path: Path) -> None:
    """A token would appear wherever a person prints what they loaded."""
    text = CONFIG.replace("TELEGRAM_URL", "http://x").replace("LLM_PORT", "1")
    config = configuration.parse(text, CANARIES, folder=tmp_path)
    for name in ("DISCORD_TOKEN", "TELEGRAM_TOKEN", "WEB_TOKEN", "COMFY_TOKEN", "LLM_TOKEN"):
        assert CANARIES[name] not in repr(config)
        assert CANARIES[name] in config.secrets()
