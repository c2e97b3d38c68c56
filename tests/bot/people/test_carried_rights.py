"""The rights that API keys carry: as chats last reported them, and only those that count."""

import asyncio
from dataclasses import replace

from bot.app.supervisor import keep_rights_fresh
from bot.core.errors import ChatUnavailable
from bot.people.people import FRESH_S, LASTS_S
from bot.requests.rules import Rule
from queueing.core.concurrency import TaskGroup
from tests.bot.results import ask, bot_with, in_bot
from tests.fakes.chat import LIMITS, FakeChat
from tests.simulation.bot_installation import Bot
from tests.simulation.loop import in_virtual_time

ROLE, OTHER = "fake-role:1", "fake-role:2"
RULES = (Rule(who=frozenset({ROLE, OTHER}), spoiler=True), Rule())
ADA = "fake:1"


@in_bot(rules=RULES)
async def test_keys_carry_what_each_group_reported_last(running: Bot) -> None:
    """A person would keep a role in their programs, or lose it because another group lacks it."""

    async def carried(later_s: float = 0.0) -> frozenset[str]:
        return await running.carried.of(ADA, running.clock.now() + later_s)

    await ask(running, "/help", ADA, chat="g1", rights=frozenset({ROLE, "fake-role:9"}))
    await ask(running, "/help", ADA, chat="g2", rights=frozenset({OTHER}))
    await ask(running, "/help", ADA, chat="1")
    assert await carried() == {ROLE, OTHER}
    await ask(running, "/help", ADA, chat="g1")
    assert await carried() == {OTHER}
    assert await carried(LASTS_S) == frozenset()
    assert await running.carried.of("fake:2", running.clock.now()) == frozenset()
    await ask(running, "/forget me --sure", ADA, chat="1")
    assert await carried() == frozenset()
    await ask(running, "/help", ADA, chat="g2", rights=frozenset({OTHER}))
    assert await carried() == {OTHER}


@in_virtual_time
async def test_keys_in_use_lose_a_role_soon_after_their_person_does() -> None:
    """A patron who left would use the patrons' models through their programs for a month."""
    held, asked = {"g1": frozenset({ROLE, "fake-role:9"}), "g2": frozenset({OTHER})}, list[str]()

    async def rights_in(user: str, place: str) -> frozenset[str]:
        assert user == ADA
        asked.append(place)
        if place == "g2":
            raise ChatUnavailable("an outage")
        return held[place]

    chat = FakeChat(limits=replace(LIMITS, rights_in=rights_in))
    async with bot_with(rules=RULES, chat=chat) as running:

        async def carried() -> frozenset[str]:
            return await running.carried.of(ADA, running.clock.now())

        async def used() -> None:
            key = await running.keys.by_secret(secret)
            assert key is not None
            await running.keys.used(key, running.clock.now())
            await asyncio.sleep(61)

        _, secret = await running.keys.new(ADA, "Ada", name="laptop", now=running.clock.now())
        fresh = keep_rights_fresh(running.carried, [chat], running.access, running.clock)
        async with TaskGroup() as tasks:
            renewing = tasks.create_task(fresh)
            for place, rights in held.items():
                await ask(running, "/help", ADA, chat=place, rights=rights)
            await asyncio.sleep(FRESH_S + 60)
            assert asked == []
            await used()
            assert await carried() == {ROLE, OTHER}
            assert sorted(asked) == ["g1", "g2"]
            held["g1"] = frozenset()
            for _ in range(6):
                await used()
            assert asked.count("g1") == 2
            assert await carried() == {OTHER}
            await ask(running, "/help", ADA, chat="g1", rights=frozenset({ROLE}))
            assert await carried() == {ROLE, OTHER}
            renewing.cancel()
