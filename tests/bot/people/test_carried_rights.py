"""The rights that API keys carry: as chats last reported them, and only those that count."""

from bot.people.people import LASTS_S
from bot.requests.rules import Rule
from tests.bot.results import ask, in_bot
from tests.simulation.bot_installation import Bot

ROLE, OTHER = "fake-role:1", "fake-role:2"
RULES = (Rule(who=frozenset({ROLE, OTHER}), spoiler=True), Rule())
ADA = "fake:1"


def test_keys_carry_what_each_group_reported_last() -> None:
    """A person would keep a role in their programs, or lose one because another group has none."""

    async def scenario(running: Bot) -> None:
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

    in_bot(scenario, rules=RULES)
