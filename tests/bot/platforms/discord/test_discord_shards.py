"""A bot's servers shared among several connections, each perhaps in a process of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bot.platforms.discord.starts as starts_module
from bot.chat.api.errors import ChatRefused
from bot.platforms.discord.platform import Discord
from bot.platforms.discord.shards import Shards, shard_of
from bot.platforms.discord.starts import EVERY_S, Starts
from tests.bot.platforms.discord.discord_bot import RecordingHandler, running, says
from tests.fakes.discord import FakeDiscord

SECOND = 1 << 22  # a server that belongs to the second of two or three shards
THERE = 200  # its channel

chats = st.integers(1, 2**63 - 1)


@asynccontextmanager
async def shared(fake: FakeDiscord, count: int) -> AsyncIterator[list[RecordingHandler]]:
    """Run a process for each shard."""
    fake.gateway.too_few = count - 1
    handlers = [RecordingHandler() for _ in range(count)]
    async with AsyncExitStack() as stack:
        for number, handler in enumerate(handlers):
            chat = Discord(fake.token, shards=Shards(count=count, only=number))
            await stack.enter_async_context(running(fake, handler, chat))
        await fake.wait_for(lambda: len(fake.gateway.shards) == count)
        yield handlers


async def test_each_process_hears_its_own_servers_alone() -> None:
    """A call would be answered twice, or by no process at all."""
    async with FakeDiscord() as fake:
        there = fake.add_channel(THERE, guild=SECOND)
        async with shared(fake, 3) as handlers:
            assert sorted(fake.gateway.shards) == [(0, 3), (1, 3), (2, 3)]
            await fake.person(7).slash("queue", in_channel=there)
            call = await handlers[1].called()
            await call.respond(says("ok"), False)
            await fake.person(7).slash("queue")
            await fake.person(7).slash("queue", in_channel=fake.person(7).direct)
            await handlers[0].called(2)
        assert [len(handler.calls) for handler in handlers] == [2, 1, 0]
        assert [each.shown for each in there.messages] == ["ok"]
        assert fake.rest.syncs == 1


async def test_one_process_may_have_all_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting would leave all servers but those of one shard without the bot."""
    monkeypatch.setattr(starts_module, "EVERY_S", 0.0)
    handler = RecordingHandler()
    async with FakeDiscord() as fake:
        there = fake.add_channel(THERE, guild=SECOND)
        fake.gateway.too_few = 1
        async with running(fake, handler, Discord(fake.token, shards=Shards(count=2))):
            await fake.wait_for(lambda: len(fake.gateway.shards) == 2)
            await fake.person(7).slash("queue", in_channel=there)
            await fake.person(7).slash("queue")
            await handler.called(2)


@given(chat=chats, guild=st.none() | chats, count=st.integers(1, 30), old=st.booleans())
def test_every_chat_belongs_to_exactly_one_shard(
    chat: int, guild: int | None, count: int, *, old: bool
) -> None:
    """A message would be edited by two processes, or by none."""
    name = f"@{chat}" if guild is None else str(chat)
    within = () if old else (str(guild or 7),)
    shards = [Shards(count=count, only=number) for number in range(count)]
    serving = [each.only for each in shards if each.serves(name, within)]
    assert serving == [shard_of(name, within, count)]
    if guild is None or old:
        assert serving == [0]
    else:
        assert serving == [(guild >> 22) % count]
    assert Shards().serves(name, within)
    assert Shards(count=count).serves(name, within)


async def test_too_few_shards_are_told_at_once() -> None:
    """Discord would be asked again and again, though the number cannot change by itself."""
    async with FakeDiscord() as fake:
        fake.gateway.too_few = 2
        chat = Discord(fake.token, shards=Shards(count=2, only=0))
        with pytest.raises(ChatRefused, match=r"raise chats\.discord\.shards"):
            await asyncio.wait_for(chat.run(RecordingHandler()), 60)
        assert len(fake.gateway.identified) == 1


def test_all_shards_together_keep_within_the_bots_budget() -> None:
    """Ten processes would send ten times what Discord allows the bot."""
    count = 10
    each = Discord("token", shards=Shards(count=count, only=3)).limits.overall_per_s
    assert each * count == pytest.approx(Discord.limits.overall_per_s)
    alone = Discord("token", shards=Shards(count=count)).limits.overall_per_s
    assert alone == Discord.limits.overall_per_s


async def test_a_check_says_how_many_shards_discord_recommends() -> None:
    """The bot would grow until Discord closes its connections, and no one would know before."""
    async with FakeDiscord() as fake:
        fake.rest.shards = 4
        few = await Discord(fake.token, shards=Shards(count=3)).check()
        assert "Discord recommends at least 4 shards" in few
        for enough in (Shards(count=4), Shards()):
            assert "shards" not in await Discord(fake.token, shards=enough).check()


# ---------------------------------------------------------------- beginning one after the other


def test_sessions_begin_as_far_apart_as_discord_asks() -> None:
    """Discord would end all but the first at once, and each try counts towards the day's."""
    now = 100.0
    starts = Starts(lambda: now)
    assert [starts.reserve(shard) for shard in (0, 1, 2)] == [0, EVERY_S, 2 * EVERY_S]
    now += 100.0
    assert starts.reserve(0) == 0
    starts.at_once = 2
    assert [starts.reserve(shard) for shard in (0, 1, 2, 3)] == [EVERY_S, 0, 2 * EVERY_S, EVERY_S]


async def test_what_discord_allows_at_once_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bot in a hundred thousand servers would take minutes to be there again."""
    starts = Starts()
    async with FakeDiscord() as fake:
        fake.rest.at_once = 16
        chat = Discord(fake.token, shards=Shards(count=2, only=0), starts=starts)
        async with running(fake, RecordingHandler(), chat):
            assert starts.at_once == 16


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
    """Two processes that start together: the later one would never be connected."""
    monkeypatch.setattr(starts_module, "EVERY_S", 0.0)
    async with FakeDiscord() as fake:
        fake.gateway.identify_every_s = 60.0
        async with running(fake, RecordingHandler()):
            second = Discord(fake.token, shards=Shards(count=2, only=1))
            task = asyncio.create_task(second.run(RecordingHandler()))
            await fake.wait_for(lambda: fake.gateway.ended_at_once)
            fake.gateway.identify_every_s = 0.0
            await fake.wait_for(lambda: len(fake.gateway.shards) == 2)
            task.cancel()
            await asyncio.wait({task})
