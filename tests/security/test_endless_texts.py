"""No text keeps the bot busy: the time to read one grows with its length and no faster."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import product

import pytest

from backends.openai.chat.reasoning import without_thoughts
from bot.commands.call.parser import parse as parse_call
from bot.commands.registry import COMMANDS
from bot.core.content import Body, Markdown
from bot.core.refusals import Declined
from bot.markdown.pages import pages
from bot.markdown.parser import parse
from bot.platforms.discord.renderer import literal
from bot.platforms.discord.renderer import measured as discord_measured
from bot.platforms.discord.text.markdown import written
from bot.platforms.telegram.renderer import measured as telegram_measured
from bot.platforms.telegram.text.markdown import styled
from bot.platforms.web.chat.renderer import split_command

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
                parse_call(command, text, lambda _: False)
            except Declined:
                continue


def _divided(text: str, limit: int, measured: Callable[[Body], int]) -> None:
    deque(pages(parse(text), limit, lambda blocks: measured((Markdown.of(blocks),))))


# With as many characters as come to it: platforms get what fits into a message.
READERS: dict[str, tuple[Callable[[str], object], int]] = {
    "Markdown": (parse.__wrapped__, 10_000),
    "Telegram's formatting": (lambda text: styled(parse(text)), 4_000),
    "Discord's formatting": (lambda text: written(parse(text), literal), 4_000),
    "Telegram's pages": (lambda text: _divided(text, 4096, telegram_measured), 10_000),
    "Discord's pages": (lambda text: _divided(text, 2000, discord_measured), 10_000),
    "Discord's words": (literal, 2_000),
    "a typed call": (_typed, 40_000),
    "a typed line": (split_command, 40_000),
    "thoughts": (without_thoughts, 40_000),
}


@pytest.mark.parametrize(
    ("beginnings", "ends", "share"),
    [(("",), ("",), 4), pytest.param(BEGINNINGS, ENDS, 1, marks=pytest.mark.thorough)],
    ids=["bare", "all"],
)
@pytest.mark.parametrize("reader", READERS)
def test_a_text_is_read_in_the_time_its_length_allows(
    reader: str, beginnings: Sequence[str], ends: Sequence[str], share: int
) -> None:
    """One prompt or answer would stop the bot for everyone, for minutes or forever.

    The quick check reads a `share` of each text, in that share of the time.
    """
    read, length = READERS[reader]
    for beginning, repeated, end in product(beginnings, REPEATED, ends):
        text = beginning + repeated * (length // share // len(repeated)) + end
        began = time.process_time()
        read(text)
        assert time.process_time() - began < CPU_S / share, (beginning, repeated, end)
