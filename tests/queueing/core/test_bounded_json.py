"""JSON from outside: counted before it is parsed, and one error for each list."""

import json
import threading
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from queueing.core.bounded_json import (
    LARGE,
    NUMBER_MOST,
    BoundedRecord,
    LongNumber,
    TooManyValues,
    ValueCount,
    parsed,
    require_few_values,
)

VALUES = st.recursive(
    st.text(alphabet='a[{,"\\\n', max_size=6) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text('[{,"\\'), inner, max_size=4)
    ),
    max_leaves=20,
)


def counted(value: object) -> int:
    """Return how many brackets and commas the JSON of a value has outside its texts."""
    if isinstance(value, list | dict):
        inner = list(value.values()) if isinstance(value, dict) else value
        return 1 + max(0, len(inner) - 1) + sum(map(counted, inner))
    return 0


@given(VALUES, st.integers(1, 9))
def test_values_are_counted_outside_texts_however_the_pieces_are_cut(
    value: object, size: int
) -> None:
    text, most = json.dumps(value).encode(), counted(value)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    fits(ValueCount(most), pieces)
    with pytest.raises(TooManyValues):
        fits(ValueCount(most - 1), [*pieces, b""])


def fits(count: ValueCount, pieces: list[bytes]) -> None:
    for piece in pieces:
        count.add(piece)


def test_millions_of_values_are_refused_without_the_memory_they_would_take() -> None:
    """60 MB of `[],` cost 550 MB in the parser alone."""
    for repeated in (b"[],", b'""', b'"",', b"{", b'\\"', b'"\\\\",'):
        text = repeated * (6_000_000 // len(repeated))
        tracemalloc.start()
        try:
            require_few_values(text, 10_000_000)
            with pytest.raises(TooManyValues):
                require_few_values(text + b'"' + b"," * 50_001 + b'"' + b"," * 50_001)
            assert tracemalloc.get_traced_memory()[1] < 16_000_000, repeated
        finally:
            tracemalloc.stop()


def test_a_long_text_is_one_value() -> None:
    require_few_values(
        b'{"image": "' + b"QUJD" * 1_000_000 + b'", "prompt": "' + b"a, " * 1_000_000 + b'"}'
    )


@pytest.mark.parametrize("size", [1, 7, 400, 100_000])
@pytest.mark.parametrize("number", [b"9", b"-0.", b"1e-", b"1E+"])
def test_a_number_of_thousands_of_digits_is_refused_before_it_is_parsed(
    number: bytes, size: int
) -> None:
    """The parser would block everything for a second with 60 MB of them."""
    fits_in = number.ljust(NUMBER_MOST, b"7")
    text = b'{"a": "' + b"7" * 5_000 + b'\\"", "b": [' + (fits_in + b",") * 20 + fits_in
    fits(ValueCount(), [text[at : at + size] for at in range(0, len(text), size)])
    longer = text + b"7]}"
    with pytest.raises(LongNumber):
        fits(ValueCount(), [longer[at : at + size] for at in range(0, len(longer), size)])


class Inner(BoundedRecord):
    """A record in lists of another."""

    name: str


class Outer(BoundedRecord):
    """Every kind of list."""

    texts: tuple[str, ...] = ()
    inner: list[Inner] | None = None
    by_name: dict[str, list[Inner]] = {}  # noqa: RUF012


def test_a_list_has_one_error() -> None:
    wrong = {"texts": [1] * 99, "inner": [[]] * 99, "by_name": {str(n): [[]] * 9 for n in range(9)}}
    with pytest.raises(ValidationError) as error:
        Outer.model_validate(wrong)
    assert [each["loc"] for each in error.value.errors()] == [
        ("texts", 0),
        ("inner", 0),
        ("by_name", "0", 0),
    ]


async def test_large_texts_are_parsed_one_at_a_time_in_a_thread() -> None:
    where = {}
    for size in (LARGE, LARGE + 1, LARGE + 2):
        where[size] = await parsed(lambda _text: threading.current_thread(), b" " * size)
    assert where[LARGE] is threading.main_thread()
    assert where[LARGE + 1] is where[LARGE + 2] is not threading.main_thread()
