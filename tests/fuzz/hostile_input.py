"""What strangers may send: any JSON, and good answers with something in them replaced.

`USHER_FUZZ` sets how many examples each test tries; the normal run uses few. Hypothesis prints how
to repeat an example that fails.
"""

import json
import os
import struct
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("USHER_FUZZ", "50"))

bounded = settings(
    max_examples=EXAMPLES,
    deadline=None,  # the machine may be busy
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

NASTY = (
    "",
    "\0",
    "\ud800",  # a lone half of a sign: UTF-8 cannot hold it
    "\u202e",
    "../../etc/passwd",
    "C:\\con",
    "{{prompt}}",
    "{0.__class__}",
    "%s%n",
    "'; DROP TABLE jobs; --",
    "<script>alert(1)</script>",
    "@everyone",
    "a" * 5000,
    "9" * 5000,
    "NaN",
    "http://169.254.169.254/latest/meta-data/",
)

texts = st.sampled_from(NASTY) | st.text(max_size=30)
numbers = (
    st.integers()
    | st.floats()
    | st.sampled_from([0, -1, 2**63, 2**64, -(2**200), 0.5, 1e308, float("inf"), float("nan")])
)
scalars = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def damaged(draw: Any, good: Sequence[bytes], integer: str) -> bytes:
    """Return a good file: cut, with bytes or an integer of a format changed, or a part doubled."""
    data = bytearray(draw(st.sampled_from(good)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data) - 1))
        match draw(st.integers(0, 3)):
            case 0:
                data[at] = draw(st.integers(0, 255))
            case 1:
                data[at : at + 4] = struct.pack(integer, draw(st.integers(0, 2**32 - 1)))
            case 2:
                data[at:at] = data[at : at + draw(st.integers(1, 60))]
            case _:
                del data[max(at, 1) :]
    return bytes(data)


def spoiled(good: Any) -> st.SearchStrategy[Any]:
    """Return a good JSON document with one or more of its parts replaced, left out or doubled."""

    @st.composite
    def spoil(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Any:
        document = json.loads(json.dumps(good))
        for _ in range(draw(st.integers(1, 3))):
            document = _spoil_once(draw, document)
        return document

    return spoil()


def _spoil_once(draw: Callable[[st.SearchStrategy[Any]], Any], value: Any) -> Any:
    """Walk down a document at random and change what is there."""
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(value)))
        rest = {other: kept for other, kept in value.items() if other != key}
        return rest | ({} if draw(st.integers(0, 9)) == 0 else {key: _spoil_once(draw, value[key])})
    if isinstance(value, list) and value and draw(st.integers(0, 5)):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], _spoil_once(draw, value[at]), *value[at + draw(st.integers(0, 1)) :]]
    return draw(values)
