"""The records as JSON: what the page and programs read."""

from typing import Any, TypeVar

from pydantic import TypeAdapter

from bot.monitoring.live_state import OperatorNow
from bot.monitoring.persons import OperatorPeople
from bot.monitoring.records import OperatorHours

Shown = TypeVar("Shown", OperatorNow, OperatorHours, OperatorPeople)

_ADAPTERS: dict[type, TypeAdapter[Any]] = {
    kind: TypeAdapter(kind) for kind in (OperatorNow, OperatorHours, OperatorPeople)
}


def to_json(record: OperatorNow | OperatorHours | OperatorPeople) -> bytes:
    """Return a record as JSON, None as null."""
    return _ADAPTERS[type(record)].dump_json(record, warnings="error")


def from_json(data: bytes, kind: type[Shown]) -> Shown:
    """Return the record of a kind that `to_json` wrote. Raises `ValueError`."""
    record: Shown = _ADAPTERS[kind].validate_json(data)
    return record
