"""Servers' answers as validated records.

Unknown keys are ignored; an answer that lacks a required field counts as the server's failure.
"""

from typing import TypeVar

from pydantic import ConfigDict, JsonValue, ValidationError

from backends.common.http_answers import require_values
from queueing.core.bounded_json import BoundedRecord, parsed
from queueing.core.errors import UnreadableAnswer


class ServerReply(BoundedRecord):
    """Base of server answers: they may add unknown keys."""

    model_config = ConfigDict(frozen=True, extra="ignore")


Answer = TypeVar("Answer", bound=ServerReply)


async def read_whole(record: type[Answer], text: bytes) -> Answer | None:
    """Return the JSON of an answer as a record, None if it is none. Raises `Unavailable`."""
    require_values(text)
    try:
        return await parsed(record.model_validate_json, text)
    except ValidationError:
        return None


def validated(record: type[Answer], body: JsonValue) -> Answer:
    """Return an answer as a record. Raises `UnreadableAnswer` if it is none."""
    try:
        return record.model_validate(body)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise UnreadableAnswer(f"unexpected answer: {where}: {fault['msg']}") from None
