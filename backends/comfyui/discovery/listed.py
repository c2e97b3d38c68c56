"""Reads a ComfyUI server's lists of files and what a file says of itself. Pure."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import JsonValue, TypeAdapter, ValidationError

from queueing.core.bounded_json import BoundedRecord, StopsEarly
from queueing.core.errors import UnreadableAnswer

T = TypeVar("T")

_LONGEST = 200  # characters of a value that is read; files hold whole workflows as well


class _Listed(BoundedRecord):
    name: str
    size: int = 0


_NAMES = TypeAdapter(Annotated[list[str], StopsEarly])
_SIZES = TypeAdapter(Annotated[list[_Listed], StopsEarly])
_METADATA = TypeAdapter(Annotated[dict[str, Any], StopsEarly])


def read_names(body: JsonValue) -> tuple[str, ...]:
    """Return the names of a folder's files, each once."""
    names: list[str] = _read(_NAMES, body)
    return tuple(dict.fromkeys(names))


def read_sizes(body: JsonValue) -> Mapping[str, int]:
    """Return the bytes of a folder's files by name, with slashes whatever the server runs on."""
    return {each.name: each.size for each in _read(_SIZES, body)}


def read_metadata(body: JsonValue) -> Mapping[str, str]:
    """Return the short texts that a model file says of itself."""
    told = _read(_METADATA, body)
    return {
        key: value
        for key, value in told.items()
        if isinstance(value, str) and len(value) <= _LONGEST
    }


def _read(adapter: TypeAdapter[T], body: JsonValue) -> T:
    try:
        return adapter.validate_python(body)
    except ValidationError as error:
        raise UnreadableAnswer(f"not a list of models: {error.error_count()} mistakes") from None
