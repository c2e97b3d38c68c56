"""An orderly stop: the next process takes over at once and gets only what is unfinished."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import discord
import pytest

import bot.http.listener as listener_module
import bot.platforms.telegram.updates as updates_module
from bot.commands.registry import COMMANDS
from bot.core.platform import ChatPlatform, Invocation
from bot.platforms.discord.platform import Discord
from tests.bot.platforms.discord.discord_bot import RecordingHandler
from tests.bot.platforms.telegram.telegram_bot import running as telegram_running
from tests.bot.platforms.telegram.telegram_bot import telegram
from tests.bot.platforms.web.web_client import opened
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.memory_log import web_chat
from tests.fakes.telegram.telegram import FakeTelegram

SOON_S = 20.0
"""What a stop must be below here, on a busy machine; without a bound it takes half a minute."""


def holding(command: str) -> RecordingHandler:
    """Return a handler that never finishes calls of a command."""

    async def then(call: Invocation) -> None:
        if call.command == command:
            await asyncio.Event().wait()

    return RecordingHandler(then=then)


async def test_what_telegram_was_not_told_before_a_stop_is_told_at_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next process would carry out, and answer, again what was already answered."""
    monkeypatch.setattr(updates_module, "SETTLE_S", 3600.0)  # so that no look comes before the stop
    async with FakeTelegram() as fake:
        for words in ("/queue", "/image cat"):
            fake.person(7).says(words)
        first = holding("image")
        async with telegram_running(fake, first):
            await first.called(2)
        second = RecordingHandler()
        async with telegram_running(fake, second):
            call = await second.called()
            assert (call.key, call.command) == (first.calls[1].key, "image")
        assert len(second.calls) == 1


async def stopping_s(platform: ChatPlatform, task: "asyncio.Future[None]") -> float:
    began = time.monotonic()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert not platform.connected.is_set()
    return time.monotonic() - began


@asynccontextmanager
async def begun(platform: ChatPlatform) -> AsyncIterator["asyncio.Future[None]"]:
    task = asyncio.ensure_future(platform.run(RecordingHandler(commands=COMMANDS)))
    try:
        await platform.connected.wait()
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_a_stop_does_not_wait_for_a_mute_telegram(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next process would wait for the role until the lease is over."""
    monkeypatch.setattr(updates_module, "SETTLE_S", 3600.0)
    async with FakeTelegram() as fake:
        for words in ("/queue", "/image cat"):
            fake.person(7).says(words)
        platform, handler = telegram(fake), holding("image")
        task = asyncio.ensure_future(platform.run(handler))
        await handler.called(2)
        fake.fail("getUpdates", hang_s=30.0)
        assert await stopping_s(platform, task) < SOON_S


async def stopping_mute_s() -> float:
    """Return how long a session takes to stop whose Discord no longer answers."""
    async with FakeDiscord() as fake:
        platform = Discord(fake.token)
        fake.gateway.deaf = True
        async with begun(platform) as task:
            await fake.connected()
            return await stopping_s(platform, task)


async def test_a_stop_does_not_wait_for_a_mute_discord() -> None:
    """A session whose network is gone would hold the role for half a minute."""
    assert await stopping_mute_s() < SOON_S


async def test_a_stop_does_not_wait_for_a_discord_that_is_mute_from_its_first_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """discord.py only notices while it reads, and nothing has been read from a new session yet."""
    monkeypatch.setattr(discord.shard.Shard, "launch", lambda _shard: None)
    assert await stopping_mute_s() < SOON_S


async def test_discord_is_told_that_a_session_ends() -> None:
    """The next holder's session would exist beside one that Discord still sends calls to."""
    async with FakeDiscord() as fake:
        platform = Discord(fake.token)
        async with begun(platform) as task:
            await fake.connected()
            await stopping_s(platform, task)
            await fake.wait_for(lambda: fake.gateway.ended)
        assert fake.gateway.ended == [1000]


async def test_a_stop_does_not_wait_for_a_page_that_answers_nothing() -> None:
    """One page on a sleeping phone would keep all others waiting for seconds."""
    platform = web_chat(port=0)
    async with begun(platform) as task, opened(platform.url) as page:
        await page.hello()
        assert await stopping_s(platform, task) < listener_module.FINISH_S


async def test_a_stop_does_not_wait_for_a_slow_upload() -> None:
    """One video over a slow connection would keep all others waiting for seconds."""
    platform = web_chat(port=0)
    async with begun(platform) as task:
        url = urlsplit(platform.url)
        reader, writer = await asyncio.open_connection("127.0.0.1", url.port)
        writer.write(
            f"POST /upload HTTP/1.1\r\nHost: {url.netloc}\r\nOrigin: http://{url.netloc}\r\n"
            "Content-Length: 9\r\nExpect: 100-continue\r\n\r\n".encode()
        )
        assert b"100 Continue" in await reader.readline()
        assert await stopping_s(platform, task) < listener_module.FINISH_S
        writer.close()
