"""The records as JSON: what the page and programs read."""

from functools import cache
from typing import Any

from pydantic import TypeAdapter


def to_json(record: object) -> bytes:
    """Return a record as JSON, None as null."""
    return _adapter(type(record)).dump_json(record, warnings="error")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
