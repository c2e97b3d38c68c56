"""Values of the seam as JSON: what both ends of a connection write and read.

Every argument and result of the protocols in this folder can be written, by the type that the
protocol names. Bytes are base64: a call carries the files of one request at most, which the chats
keep below some tens of megabytes, and a preview is small. An event is written with the name of its
class.
"""

from functools import cache
from typing import Any, get_args

from pydantic import ConfigDict, TypeAdapter

from queueing.core.events import Event

_CONFIG = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="strings")
_EVENTS: dict[str, type[Event]] = {each.__name__: each for each in get_args(Event)}


def to_json(value: object, kind: Any) -> bytes:
    """Return a value of a type as JSON."""
    return _adapter(kind).dump_json((value,), warnings="error")


def from_json(data: bytes, kind: Any) -> Any:
    """Return the value of a type that `to_json` wrote. Raises `ValueError`."""
    return _adapter(kind).validate_json(data)[0]


def event_to_json(event: Event) -> tuple[str, bytes]:
    """Return the name of an event's class, and the event as JSON."""
    name = type(event).__name__
    return name, to_json(event, _EVENTS[name])


def event_from_json(name: str, data: bytes) -> Event:
    """Return the event that `event_to_json` wrote. Raises `ValueError`, `KeyError`."""
    event: Event = from_json(data, _EVENTS[name])
    return event


@cache
def _adapter(kind: Any) -> TypeAdapter[tuple[Any]]:
    # In a tuple, because pydantic takes no configuration for a dataclass alone.
    return TypeAdapter(tuple[kind], config=_CONFIG)
