"""No text keeps the bot busy: the time to read one grows with its length and no faster."""

import time
from collections.abc import Callable, Sequence
from itertools import product

import pytest

from backends.openai.reasoning import without_thoughts
from bot.commands.call.parser import parse
from bot.commands.registry import COMMANDS
from bot.core.content import pages
from bot.core.refusals import Declined
from bot.platforms.discord.renderer import literal
from bot.platforms.telegram.markdown import styled
from bot.platforms.web.renderer import split_command

# Generous for busy machines: a reader takes some hundredths of it, one that goes back and forth
# over its text minutes.
CPU_S = 3.0

BEGINNINGS = ("", "~~~", "# ", "- ", "http://", "[a](", "--prompt ", "<think>")
REPEATED = (
    *("~", "`", "~`", "*", "_", "**a", "_a", "[", "[a](", "![", "(", "<", "#", " ", "# ", "\t"),
    *("|", "\\", "@", "http://", "https://x.,", "\n", "\n\n", "1. ", "--a", "--a ", '"', "'a", "="),
    *(
        "**a ",
        "`a``b",
        "- *",
        "\N{CAT FACE}",
        "[a](http://b)",
        "``a",
        "\n</think>",
        "[x](y z) ",
        ".",
        ":",
    ),
)
ENDS = ("", "`", "<")


def _typed(text: str) -> None:
    for command in COMMANDS:
        if command.name in {"image", "ask"}:
            try:
                parse(command, text, lambda _: False)
            except Declined:
                continue


# With as many characters as come to it: platforms get what fits into a message.
READERS: dict[str, tuple[Callable[[str], object], int]] = {
    "Telegram's formatting": (styled, 4_000),
    "Discord's words": (literal, 2_000),
    "pages": (lambda text: pages(text, 1900), 40_000),
    "a typed call": (_typed, 40_000),
    "a typed line": (split_command, 40_000),
    "thoughts": (without_thoughts, 40_000),
}


@pytest.mark.parametrize(
    ("beginnings", "ends"),
    [(("",), ("",)), pytest.param(BEGINNINGS, ENDS, marks=pytest.mark.thorough)],
    ids=["bare", "all"],
)
@pytest.mark.parametrize("reader", READERS)
def test_a_text_is_read_in_the_time_its_length_allows(
    reader: str, beginnings: Sequence[str], ends: Sequence[str]
) -> None:
    """One prompt or answer would stop the bot for everyone, for minutes or for ever."""
    read, length = READERS[reader]
    for beginning, repeated, end in product(beginnings, REPEATED, ends):
        text = beginning + repeated * (length // len(repeated)) + end
        began = time.process_time()
        read(text)
        assert time.process_time() - began < CPU_S, (beginning, repeated, end)
