"""Which part of an answer a voice reads."""

import time

from bot.requests.recordings import SPOKEN_LIMIT, read_of, spoken


def test_a_table_is_read_as_its_words() -> None:
    """A voice would read out every line and bar."""
    table = "| name | age |\n|---|:-:|\n| Ada | 36 |\n"
    assert spoken(table) == "name, age\nAda, 36"


def test_a_long_answer_ends_with_a_sentence() -> None:
    """The voice would break off in the middle of a word."""
    answer = "This is one sentence. " * 300
    read = read_of(answer)
    assert len(read) <= SPOKEN_LIMIT
    assert read.endswith("sentence.")
    assert read_of("short") == "short"
    assert read_of("```\ncode\n```") == ""


def test_no_answer_takes_long_to_read() -> None:
    """A model that repeats a character forever would block everything else."""
    cases: list[str] = ["*a ", "[", "`", "_", "| ", "- ", "[a](", "```\n", "**", "<https://"]
    for sign in cases:
        began = time.process_time()
        spoken(sign * (1_000_000 // len(sign)))
        assert time.process_time() - began < 1.0, sign
