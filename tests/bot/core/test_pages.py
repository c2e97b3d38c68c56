"""Long answers are cut so that every page stands alone."""

import re

from hypothesis import given
from hypothesis import strategies as st

from bot.core.content import pages, utf16_length


@given(st.text(alphabet="ab \n😀`~", max_size=600), st.integers(60, 200))
def test_no_page_is_too_long(text: str, limit: int) -> None:
    """A chat would refuse a page of an answer."""
    assert all(utf16_length(page) <= limit for page in pages(text, limit))


@given(st.text(alphabet="abc 😀\n", max_size=600), st.integers(60, 200))
def test_no_word_is_lost(text: str, limit: int) -> None:
    """An answer would have holes where it was cut."""
    joined = "".join(pages(text, limit))
    assert re.sub(r"\s", "", joined) == re.sub(r"\s", "", text)


def test_a_torn_fence_is_closed_and_opened_again() -> None:
    """Half an answer would be shown as code, or code as text."""
    text = "before\n```python\n" + "x = 1\n" * 60 + "```\nafter"
    made = pages(text, 150)
    assert len(made) > 2
    for page in made:
        assert page.count("```") % 2 == 0
    assert made[1].startswith("```python\n")


def test_a_short_text_is_one_page() -> None:
    """Short answers would be touched without need."""
    assert pages("hello", 4096) == ["hello"]
    assert pages("", 4096) == [""]


def test_cuts_prefer_paragraphs() -> None:
    """A sentence would be torn although a paragraph ends nearby."""
    text = "a" * 70 + "\n\n" + "b" * 90
    assert pages(text, 130) == ["a" * 70, "b" * 90]
