"""Which roles exist, and what the holder of each runs."""

import pytest

from bot.app.cluster.leases import roles_of
from bot.config.config import Config
from bot.config.loader import parse
from bot.platforms.registry import PlatformParts, platform_of, platforms
from queueing.core.ports import SystemClock
from tests.bot.config.configs import with_lines
from tests.bot.platforms.discord.discord_bot import NotesInMemory
from tests.fakes.memory_log import MemoryLog

ALL = (
    "  discord: {token: a.token.of-discord}",
    "  telegram: {token: '7:a-token-of-telegram-with-all-its-signs'}",
)


def config(*lines: str) -> Config:
    return parse(with_lines(*lines), {})


def fittings(given: Config) -> PlatformParts:
    return PlatformParts(
        commands=(),
        notes=NotesInMemory(),
        access=given.access(),
        clock=SystemClock(),
        chat_log=MemoryLog(),
        overview=lambda _: (),
    )


def test_the_posts_are_those_of_the_configured_chats() -> None:
    """A chat would be served by no process, or two processes would wait for different roles."""
    assert roles_of(config()) == ("queue", "web")
    assert roles_of(config(ALL[0])) == ("queue", "discord", "web")
    assert roles_of(config(*ALL)) == ("queue", "discord", "telegram", "web")


def test_the_holder_of_a_post_runs_its_chat() -> None:
    """A chat would have no process, or people's ids would change with the process."""
    given = config(*ALL)
    names = [each.name for each in platforms(given.chats, fittings(given))]
    assert names == ["discord", "telegram", "web"]
    for role in roles_of(given)[1:]:
        assert platform_of(role, given.chats, fittings(given)).name == role


@pytest.mark.parametrize("role", ["queue", "discord:0", "telegram", "carrier-pigeon"])
def test_a_post_that_is_no_chats_is_refused(role: str) -> None:
    """A process would hold a role and do nothing."""
    given = config(ALL[0])
    with pytest.raises(ValueError, match=role):
        platform_of(role, given.chats, fittings(given))
