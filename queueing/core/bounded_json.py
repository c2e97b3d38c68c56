"""Reads JSON from outside at a bounded cost, and writes JSON that every reader accepts.

One byte of JSON can take hundreds of bytes in memory: each `[],` becomes a list and, where no list
is expected, another validation error. Values are therefore counted before parsing, and a record
stops at the first error of a list or dict.

Parsing a number takes time quadratic in its digits and blocks the event loop: 60 MB of long numbers
would take a second. Long numbers are therefore refused.
"""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import CoreSchema

T = TypeVar("T")

VALUES_MOST = 50_000
"""Enough for any ordinary text: thousands of messages, or hundreds of tools with their schemas."""
LARGE = 256 * 1024  # bytes; smaller texts are parsed in the event loop
NUMBER_MOST = 400
"""The longest number accepted, in characters. The smallest float takes 343 with 17 digits and no
exponent.
"""
_PIECE = 64 * 1024
_COUNTED = b"[{,"
_OTHERS = bytes(set(range(256)) - set(_COUNTED))
_AS_DIGITS = bytes(ord("0") if byte in b"0123456789+-.eE" else ord(" ") for byte in range(256))
_TOO_LONG = b"0" * (NUMBER_MOST + 1)
_STOPPING = ("dict", "list", "tuple", "set", "frozenset")
_parser = ThreadPoolExecutor(max_workers=1, thread_name_prefix="json")


class TooManyValues(ValueError):
    """A text has more values than its reader accepts."""

    def __init__(self, most: int) -> None:
        super().__init__(f"more than {most} values")
        self.refusal = f"must not hold more than {most:,} values"


class LongNumber(TooManyValues):
    """A number in a text has more than `NUMBER_MOST` characters."""

    def __init__(self) -> None:
        ValueError.__init__(self, f"a number of more than {NUMBER_MOST} characters")
        self.refusal = f"must not hold numbers of more than {NUMBER_MOST} characters"


class ValueCount:
    """Counts the values of a JSON text that arrives in pieces, without parsing it."""

    def __init__(self, most: int = VALUES_MOST) -> None:
        self._most = most
        self._count = 0
        self._in_text = False
        self._rest = b""
        self._digits = b""  # the beginning of a number that the next piece may continue

    def add(self, piece: bytes) -> None:
        """Count another piece. Raises `TooManyValues`, or its subclass `LongNumber`."""
        for at in range(0, len(piece), _PIECE):
            self._add(piece[at : at + _PIECE])

    def _add(self, piece: bytes) -> None:
        plain = self._rest + piece
        if b"\\" in plain:
            plain = plain.replace(rb"\\", b"").replace(rb"\"", b"")
        self._rest = b"\\" if plain.endswith(b"\\") else b""  # the quote may be in the next piece
        parts = plain.split(b'"')
        outside = b"".join(parts[self._in_text :: 2])
        self._count += len(outside.translate(None, _OTHERS))
        self._in_text ^= len(parts) % 2 == 0
        if self._count > self._most:
            raise TooManyValues(self._most)
        self._require_short(outside)

    def _require_short(self, outside: bytes) -> None:
        numbers = self._digits + outside.translate(_AS_DIGITS)
        if _TOO_LONG in numbers:
            raise LongNumber
        self._digits = numbers[len(numbers.rstrip(b"0")) :]


def require_few_values(text: bytes, most: int = VALUES_MOST) -> None:
    """Count the values of a JSON text. Raises `TooManyValues`.

    A text of at most `most` bytes is not scanned: no number in it is long enough to matter.
    """
    if len(text) > most:
        ValueCount(most).add(text)


async def parsed(parse: Callable[[bytes], T], text: bytes) -> T:
    """Parse a text. Large texts are parsed in a thread, one at a time."""
    if len(text) <= LARGE:
        return parse(text)
    return await one_at_a_time(lambda: parse(text))


async def one_at_a_time(work: Callable[[], T]) -> T:
    """Run work on a large text in the thread that parses large texts, and return its result."""
    return await asyncio.get_running_loop().run_in_executor(_parser, work)


def _stop_early(schema: Any) -> None:
    if isinstance(schema, dict):
        if schema.get("type") in _STOPPING:
            schema["fail_fast"] = True
        for part in schema.values():
            _stop_early(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            _stop_early(part)


class BoundedRecord(BaseModel):
    """Base of records from outside. Each of their lists and dicts reports at most one error."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[BaseModel], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Make every list and dict of the record stop at its first error."""
        schema = handler(source)
        _stop_early(schema)
        return schema


class StopsEarly:
    """Annotates a list or dict from outside that is not part of a record.

    It reports at most one error.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Make every list and dict stop at its first error."""
        schema = handler(source)
        _stop_early(schema)
        return schema


def written(value: Any, *, raw: bool = False, spaced: bool = False) -> str:
    """Serialize a value as JSON on one line.

    `raw` keeps non-ASCII letters. `spaced` adds a space after commas and colons, as Python does by
    default. NaN and infinities become null, as in JavaScript. JSON does not have them, but Python
    reads and writes them, and a server or caller may have sent some.
    """
    encoder = json.JSONEncoder(
        ensure_ascii=not raw, allow_nan=False, separators=None if spaced else (",", ":")
    )
    try:
        return encoder.encode(value)
    except ValueError:
        return encoder.encode(json.loads(json.dumps(value), parse_constant=_null))


def _null(_name: str) -> None:
    return None
