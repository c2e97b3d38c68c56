"""Which posts there are, and what the holder of each runs."""

import pytest

from bot.config.config import Config
from bot.config.load import parse
from bot.runtime.duties import posts_of
from bot.runtime.platforms import Fittings, platform_of, platforms
from queueing.core.clock import SystemClock
from tests.bot.config.configs import problems, with_lines
from tests.bot.platforms.discord.discord_bot import NotesInMemory

ALL = (
    "  discord: {token: a-token-of-discord, shards: 3}",
    "  telegram: {token: '7:a-token-of-telegram'}",
)


def config(*lines: str) -> Config:
    return parse(with_lines(*lines), {})


def fittings(given: Config) -> Fittings:
    return Fittings(
        notes=NotesInMemory(),
        access=given.access(),
        clock=SystemClock(),
        chat_log=None,
        overview=None,
    )


def test_the_posts_are_those_of_the_configured_chats() -> None:
    """A chat would be served by no process, or two processes would wait for different posts."""
    assert posts_of(config()) == ("queue", "web")
    assert posts_of(config("  discord: {token: t}")) == ("queue", "discord:0", "web")
    assert posts_of(config(*ALL)) == (
        "queue",
        *(f"discord:{number}" for number in range(3)),
        "telegram",
        "web",
    )


def test_the_holder_of_a_post_runs_its_part_of_a_chat() -> None:
    """Two processes would serve the same chats, or people's ids change with the process."""
    given = config(*ALL)
    assert [each.name for each in platforms(given.chats, fittings(given))] == [
        "discord",
        "telegram",
        "web",
    ]
    for post in posts_of(given)[1:]:
        assert platform_of(post, given.chats, fittings(given)).name == post.partition(":")[0]
    shards = [platform_of(f"discord:{number}", given.chats, fittings(given)) for number in range(3)]
    server = (str(7 << 22),)
    assert [each.serves("42", server) for each in shards] == [False, True, False]
    (whole, *_) = platforms(given.chats, fittings(given))
    assert whole.serves("42", server)


def test_without_shards_the_one_post_has_all_of_discord() -> None:
    """Servers beyond the first 2500 would be left out by a configuration that names no number."""
    given = config("  discord: {token: t}")
    chat = platform_of("discord:0", given.chats, fittings(given))
    assert all(chat.serves("42", (str(number << 22),)) for number in range(5))


@pytest.mark.parametrize("post", ["queue", "discord:3", "discord", "telegram", "carrier-pigeon"])
def test_a_post_that_is_no_chats_is_refused(post: str) -> None:
    """A process would hold a post and do nothing."""
    given = config(ALL[0])
    with pytest.raises(ValueError, match=post):
        platform_of(post, given.chats, fittings(given))


def test_a_number_of_shards_that_makes_no_sense_is_told() -> None:
    """The bot would wait for posts by the million, or for none."""
    assert problems(with_lines("  discord: {token: t, shards: 0}")) == (
        "config.yaml:10: chats.discord.shards: must be at least 1",
    )
    assert problems(with_lines("  discord: {token: t, shards: 1001}")) == (
        "config.yaml:10: chats.discord.shards: must be at most 1000",
    )
