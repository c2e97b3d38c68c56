"""What Telegram, Discord and the page show of models' Markdown, whole and over several messages.

Each `NAME.md` of `markdown/` is an answer. `NAME.json` beside it has what Telegram is sent, as a
text and the stretches of its entities, what Discord is sent, and the blocks that the page draws.
"""

import json
import re
import time
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from telegram import MessageEntity

from bot.core.content import Markdown, utf16_length
from bot.markdown.elements import Blocks, Kind, plain
from bot.markdown.pages import last_page, pages
from bot.markdown.parser import parse
from bot.markdown.tables import for_chat
from tests.samples import in_turn
from tests.wild.markdown_platforms import (
    MEASURES,
    code_on_discord,
    codes,
    covered,
    entities,
    on_discord,
    on_page,
    on_telegram,
    unquoted,
)

CASES = sorted(Path(__file__).with_name("markdown").glob("*.md"))
ANSWERS = {case.stem: case.read_bytes().decode() for case in CASES}
by_name = in_turn("name", ANSWERS)
SMALL = 400  # units of a page; a corpus of long answers would take long to read


@by_name
def test_an_answer_is_shown_as_it_was_meant(name: str) -> None:
    """People would read Markdown's marks instead of tables, or prose as code."""
    case = next(case for case in CASES if case.stem == name)
    meant: dict[str, Any] = json.loads(case.with_suffix(".json").read_text(encoding="utf-8"))
    part = Markdown(ANSWERS[name])
    message = on_telegram(part)
    assert message.text == meant["telegram"]
    assert entities(message) == meant["entities"]
    assert on_discord(part) == meant["discord"]
    assert on_page(part) == meant["page"]


def divided(text: str, platform: str, limit: int) -> list[Blocks]:
    """Return an answer's pages, at most as many as its characters."""
    made = pages(parse(text), limit, MEASURES[platform][0])
    return [page for page, _ in zip(made, range(len(text) + 2), strict=False)]


def signs(text: str) -> str:
    return re.sub(r"\s", "", text)


def check_division(text: str, platform: str, limit: int) -> None:
    """Check that pages fit, lose no character and leave code as it is."""
    measure, _most = MEASURES[platform]
    made = divided(text, platform, limit)
    for page in made:
        assert measure(page) <= limit
        check_shown(Markdown.of(page), platform)
    tables = next(codes(parse(text), Kind.TABLE), None)
    if tables is None:  # the pages of a table repeat its header
        assert signs("".join(map(plain, made))) == signs(plain(parse(text)))
    for kind in (Kind.FENCE, Kind.CODE):
        whole = "".join(node.text for node in codes(parse(text), kind))
        assert signs("".join(node.text for page in made for node in codes(page, kind))) == signs(
            whole
        )


def check_shown(part: Markdown, platform: str) -> None:
    """Check that a message has all of its code, as code and unchanged."""
    blocks = for_chat(part.blocks)
    fences = [node.text for node in codes(blocks, Kind.FENCE, Kind.DISPLAY) if node.text.strip()]
    if platform == "telegram":
        message = on_telegram(part)
        assert utf16_length(message.text) <= 4096
        read = [each for each in message.entities[:100] if each.type == MessageEntity.PRE]
        shown = [covered(message, each) for each in read]
        assert [text for text in fences if text not in shown] == []
    else:
        text = on_discord(part)
        shown = code_on_discord(text)
        runs = [fence for fence in fences if not re.search(r"(?<!`)`(?!`)|(?<!`)``(?!`)", fence)]
        assert [fence for fence in runs if bare(fence) not in map(bare, shown)] == []


def bare(text: str) -> str:
    return unquoted(text).strip("\n")


@by_name
def test_an_answer_over_several_messages_is_whole(name: str) -> None:
    """Half of an answer would be code, or missing."""
    for platform, (_measure, most) in MEASURES.items():
        check_division(ANSWERS[name], platform, SMALL)
        check_division(ANSWERS[name], platform, most)


@pytest.mark.parametrize("steps", [25, pytest.param(300, marks=pytest.mark.thorough)])
@by_name
def test_an_answer_that_is_written_settles(name: str, steps: int) -> None:
    """A reader would see read text change, or an open code block swallow the whole answer."""
    text = ANSWERS[name]
    for end in range(0, len(text), 1 + len(text) // steps):
        before = text[:end]
        assert parse(before) == fresh(before)


def fresh(text: str) -> Blocks:
    """Return an answer read without any cached result of its beginning."""
    return parse.__wrapped__("\u200b\n\n" + text)[1:]


@pytest.mark.parametrize("steps", [10, pytest.param(40, marks=pytest.mark.thorough)])
@by_name
def test_the_last_page_of_a_growing_answer_is_that_of_the_whole(name: str, steps: int) -> None:
    """An answer would jump at its end, or show a page twice."""
    text = ANSWERS[name]
    ends = range(0, len(text), 1 + len(text) // steps)
    for platform, end in product(MEASURES, ends):
        page = last_page(parse(text[:end]), SMALL, MEASURES[platform][0])
        assert page == divided(text[:end], platform, SMALL)[-1], platform


PIECES = st.sampled_from(
    [
        *(
            "word ",
            "**b** ",
            "*i* ",
            "`code` ",
            "||s|| ",
            "~~x~~ ",
            "$x^2$ ",
            "@name ",
            "🐈",
            "语言",
        ),
        *("\n", "\n\n", "\n- ", "\n  - ", "\n1. ", "\n> ", "> ", "\n   ", "\n# ", "\n- [x] "),
        *("\n```py\n", "\n```\n", "\n````\n", "\n   ```\n", "\n> ```\n", "~~~\n", "    ", "\t"),
        *("[a](https://example.org/b) ", "https://example.org/c_d ", "\n|a|b|\n|-|-|\n|c|d|\n"),
        *(
            "*",
            "`",
            "```",
            "_",
            "|",
            "\\",
            "<",
            "&amp;",
            "long" * 30,
            "\n***\n",
            "$$\n",
            "\\[",
            "\\]",
        ),
    ]
)


@pytest.mark.parametrize("platform", MEASURES)
@given(st.lists(PIECES, max_size=60).map("".join), st.integers(150, 600))
def test_whatever_is_written_is_divided_without_loss(platform: str, text: str, limit: int) -> None:
    """A chat would refuse a message, or an answer have gaps."""
    check_division(text, platform, limit)


@given(st.lists(PIECES, max_size=60).map("".join))
def test_whatever_is_written_grows_as_it_is_read_whole(text: str) -> None:
    """The cached result of a beginning would change what follows."""
    for end in range(0, len(text), 1 + len(text) // 20):
        assert parse(text[:end]) == fresh(text[:end])


def test_code_is_kept_when_a_message_has_too_many_marks() -> None:
    """A block of code would be prose, with invisible characters in its names."""
    message = on_telegram(Markdown(ANSWERS["hundred-entities"]))
    assert len(message.entities) == 99
    assert [covered(message, each) for each in message.entities if each.type == "pre"] == [
        "@dataclass\nclass A:\n    x: int"
    ]
    assert "\u2060" not in message.text


def test_an_edit_costs_the_same_however_long_the_answer_is() -> None:
    """A long answer would delay everyone else's messages."""
    text = ANSWERS["headings-and-code-of-an-answer"] * 200
    parse(text)
    first, second = parse(f"{text}a"), parse(f"{text}ab")
    assert all(a is b for a, b in zip(first[:-1], second[:-1], strict=True))


@pytest.mark.parametrize("line", ["\\[", "$$ x", "> $$", "- \\["])
def test_formulas_without_an_end_are_read_in_time(line: str) -> None:
    """A model that repeats a character would block the bot for minutes."""
    began = time.process_time()
    assert signs(plain(parse(f"{line}\n" * 6000)))
    assert time.process_time() - began < 4.0
