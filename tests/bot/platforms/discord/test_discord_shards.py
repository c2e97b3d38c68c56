"""The connections of one bot: one process opens all of them, as fast as Discord allows."""

import asyncio
from unittest.mock import MagicMock

import aiohttp
import discord.shard
import pytest

import bot.platforms.discord.client as starts_module
from bot.platforms.discord.client import EVERY_S, Starts
from bot.platforms.discord.platform import Discord
from tests.bot.platforms.discord.discord_bot import RecordingHandler, running, says
from tests.fakes.discord.discord import FakeDiscord

SECOND = 1 << 22  # a server that belongs to the second of two or three shards
THERE = 200  # its channel


async def test_one_process_opens_all_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bot would be missing in all servers except those of one connection."""
    monkeypatch.setattr(starts_module, "EVERY_S", 0.0)
    handler = RecordingHandler()
    async with FakeDiscord() as fake:
        there = fake.add_channel(THERE, guild=SECOND)
        fake.rest.shards, fake.gateway.too_few = 3, 2
        async with running(fake, handler):
            await fake.wait_for(lambda: len(fake.gateway.shards) == 3)
            assert sorted(fake.gateway.shards) == [(0, 3), (1, 3), (2, 3)]
            await fake.person(7).slash("queue", in_channel=there)
            call = await handler.called()
            await call.respond(says("ok"), False)
            await fake.person(7).slash("queue")
            await fake.person(7).slash("queue", in_channel=fake.person(7).direct)
            await handler.called(3)
        assert [each.shown for each in there.messages] == ["ok"]
        assert fake.rest.syncs == 1


# ---------------------------------------------------------------- beginning one after the other


def test_sessions_begin_as_far_apart_as_discord_asks() -> None:
    """Discord would end all but the first at once, and each try counts towards the day's limit."""
    now = 100.0
    starts = Starts(lambda: now)
    assert [starts.reserve(shard) for shard in (0, 1, 2)] == [0, EVERY_S, 2 * EVERY_S]
    now += 100.0
    assert starts.reserve(0) == 0
    starts.at_once = 2
    assert [starts.reserve(shard) for shard in (0, 1, 2, 3)] == [EVERY_S, 0, 2 * EVERY_S, EVERY_S]


async def test_connections_begin_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Discord would end all but the first, and each try counts towards the day's limit."""
    monkeypatch.setattr(starts_module, "EVERY_S", 0.5)
    async with FakeDiscord() as fake:
        fake.rest.shards, fake.gateway.identify_every_s = 3, 0.3
        async with running(fake, RecordingHandler()):
            await fake.wait_for(lambda: len(fake.gateway.shards) == 3)
        assert fake.gateway.ended_at_once == 0


async def test_as_many_connections_begin_together_as_discord_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bot in a hundred thousand servers would take minutes to return."""
    monkeypatch.setattr(starts_module, "EVERY_S", 3600.0)
    async with FakeDiscord() as fake:
        fake.rest.shards = fake.rest.at_once = 3
        async with running(fake, RecordingHandler()):
            await fake.wait_for(lambda: len(fake.gateway.shards) == 3)


# ---------------------------------------------------------------- the fake


@pytest.mark.parametrize(("shard", "code"), [([2, 2], 4010), ([-1, 2], 4010), (None, 4011)])
async def test_the_fake_refuses_what_discord_refuses(shard: list[int] | None, code: int) -> None:
    """A bot that identifies wrongly would pass all tests."""
    async with FakeDiscord() as fake, aiohttp.ClientSession() as session:
        fake.gateway.too_few = 1
        async with session.ws_connect(f"{fake.url}/gateway") as socket:
            assert (await socket.receive_json())["op"] == 10
            given = {"token": fake.token, "intents": 0} | ({"shard": shard} if shard else {})
            await socket.send_json({"op": 2, "d": given})
            await socket.receive()
            assert socket.close_code == code


async def test_a_session_that_begins_too_soon_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that takes over a chat just after another began would never be connected."""
    monkeypatch.setattr(starts_module, "EVERY_S", 0.0)
    async with FakeDiscord() as fake:
        fake.gateway.identify_every_s = 60.0
        async with running(fake, RecordingHandler()):
            second = Discord(fake.token)
            task = asyncio.create_task(second.run(RecordingHandler()))
            await fake.wait_for(lambda: fake.gateway.ended_at_once)
            fake.gateway.identify_every_s = 0.0
            await fake.wait_for(lambda: len(fake.gateway.shards) == 2)
            task.cancel()
            await asyncio.wait({task})


def test_after_many_sessions_in_a_day_further_ones_start_rarely() -> None:
    """On a network that breaks each connection, Discord would reset the token."""
    now, sessions = 0.0, 0
    starts = Starts(lambda: now)
    while now < 24 * 3600:
        now += starts.reserve(0)
        sessions += 1
        now += 1.0
    assert sessions < 900


def test_a_connection_is_tried_again_soon_after_any_outage() -> None:
    """For minutes people would read "The application did not respond"."""
    shard = discord.shard.Shard(MagicMock(), MagicMock(), MagicMock())
    pauses = [shard._backoff.delay() for _ in range(30)]
    assert max(pauses) <= 30.0
    assert max(pauses[5:]) > 5.0
