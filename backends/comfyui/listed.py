"""Reads a ComfyUI server's lists of files and what a file says of itself. Pure."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from queueing.core.bounded_json import BoundedRecord, StopsEarly
from queueing.core.errors import UnreadableAnswer

T = TypeVar("T")

FILES_MOST = 20_000  # of a folder
NAME_MOST = 4_096  # characters, with its folders
READ = ("modelspec.architecture", "ss_base_model_version")
"""The names of the texts that are read of a file's metadata."""
_LONGEST = 200  # characters of such a text


class _Listed(BoundedRecord):
    name: str
    size: int = 0


_NAMES = TypeAdapter(Annotated[list[str], Field(max_length=FILES_MOST), StopsEarly])
_SIZES = TypeAdapter(Annotated[list[_Listed], Field(max_length=FILES_MOST), StopsEarly])
_METADATA = TypeAdapter(Annotated[dict[str, Any], StopsEarly])


def read_names(body: JsonValue) -> tuple[str, ...]:
    """Return the names of a folder's files, each once, without those that no disk can hold."""
    names: list[str] = _read(_NAMES, body)
    return tuple(dict.fromkeys(name for name in names if len(name) <= NAME_MOST))


def read_sizes(body: JsonValue) -> Mapping[str, int]:
    """Return the bytes of a folder's files by name, with slashes whatever the server runs on."""
    return {each.name: each.size for each in _read(_SIZES, body)}


def read_metadata(body: JsonValue) -> Mapping[str, str]:
    """Return what a model file says that it is; files hold much more, such as workflows."""
    told = _read(_METADATA, body)
    return {
        key: value
        for key in READ
        if isinstance(value := told.get(key), str) and len(value) <= _LONGEST
    }


def _read(adapter: TypeAdapter[T], body: JsonValue) -> T:
    try:
        return adapter.validate_python(body)
    except ValidationError as error:
        raise UnreadableAnswer(f"not a list of models: {error.error_count()} mistakes") from None
