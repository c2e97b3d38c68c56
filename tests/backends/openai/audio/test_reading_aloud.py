"""Texts prepared for being read aloud."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.openai.audio.speech import PART_MOST, parts_of, plain_words


def solid(text: str) -> str:
    return "".join(text.split())


@given(
    st.text(alphabet=st.sampled_from('ab .!?\n,;。…"é😀\u2028'), max_size=400), st.integers(1, 60)
)
def test_parts_are_short_and_lose_nothing(text: str, most: int) -> None:
    """A server would refuse a part, or a person would miss a sentence."""
    parts = parts_of(text, most)
    assert all(0 < len(part.strip()) == len(part) <= most for part in parts)
    assert solid("".join(parts)) == solid(text)


def test_parts_end_with_sentences() -> None:
    """The voice would stop in the middle of a thought."""
    sentence = "The cat sat on the mat, and it was 3.5 m wide. "
    parts = parts_of(sentence * 300)
    assert len(parts) > 3
    assert all(part.endswith("wide.") for part in parts)
    assert all(len(part) <= PART_MOST <= 4096 for part in parts)


def test_a_short_text_is_one_part() -> None:
    """Each part costs a call."""
    assert parts_of("One. Two. Three.") == ["One. Two. Three."]


MARKED = (
    ("# A title\n\nSome *fine* **bold** words.", "A title\n\nSome fine bold words."),
    ("- one\n- two\n  * [x] three", "one\ntwo\nthree"),
    ("See [the page](https://example.org/a_(b)) now", "See the page now"),
    ("See [the page](https://example.org) now", "See the page now"),
    ("![a cat](cat.png)", "a cat"),
    ("Use `ls -l` and\n```sh\necho hi\n```\nthen", "Use ls -l and\n\necho hi\n\nthen"),
    ("> quoted\n> twice", "quoted\ntwice"),
    ("| a | b |\n|---|:-:|\n| 1 | 2 |", "a, b\n\n1, 2"),
    ("***all of it*** ~~gone~~ __two__", "all of it gone two"),
    ("snake_case_name and 2*3*4 = 24", "snake_case_name and 2*3*4 = 24"),
    ("one\n\n---\n\ntwo", "one\n\ntwo"),
    (r"\*not emphasised\*", "*not emphasised*"),
    ("1. first\n2. second", "1. first\n2. second"),
    ("A - B -- C", "A - B -- C"),
    ("***", "***"),
)


def test_marks_are_not_read_aloud(subtests: pytest.Subtests) -> None:
    """The voice would say "asterisk asterisk"."""
    for marked, plain in MARKED:
        with subtests.test(marked):
            assert plain_words(marked) == plain


@given(st.text(alphabet="abc .,!?\n", max_size=200))
def test_a_text_without_marks_keeps_its_words(text: str) -> None:
    """Words would be lost that no one marked."""
    assert plain_words(text).split() == text.split()


def test_no_text_takes_long(subtests: pytest.Subtests) -> None:
    """One message could block everything else."""
    for unit in ["*a ", "[", "`", "_a_", "#", "-", "| ", "> ", "~~", "\\", "= "]:
        with subtests.test(unit=unit):
            begun = time.process_time()
            parts_of(plain_words(unit * (60_000 // len(unit))))
            assert time.process_time() - begun < 5
