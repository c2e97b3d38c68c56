"""A line without a command means what a person would say it means, on every platform."""

import pytest

from tests.bot.results import ask, in_bot, said
from tests.simulation.bot_installation import Bot

SLIPS = ["//image cat", "/ image cat", "/ /image cat", "///IMAGE", "/image@usher cat", "/image@a"]


@pytest.mark.parametrize("line", SLIPS)
def test_a_slip_of_the_slash_is_answered_with_the_help_of_that_command(line: str) -> None:
    """A person would wait for a picture while a language model ponders the word “//image”."""

    async def scenario(running: Bot) -> None:
        assert await ask(running, f"/ask {line}") is None

    ((_, told),) = in_bot(scenario).private
    assert told.startswith("/image [model] <prompt>")


@pytest.mark.parametrize(
    "line", ["// is a comment", "/usr/bin is full", "/ 2 = 1?", "a //image", "/image@a.b c"]
)
def test_other_words_with_slashes_are_questions(line: str) -> None:
    """A question about paths or code would be taken for a command."""

    async def scenario(running: Bot) -> None:
        assert said(await ask(running, f"/ask {line}")) == [("user", line)]

    in_bot(scenario)
