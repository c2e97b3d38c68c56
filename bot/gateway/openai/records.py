"""The base of all records that clients send, and the errors for invalid ones."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from aiohttp import web
from pydantic import ConfigDict, JsonValue, ValidationError

from bot.gateway.bodies import WORDS_LIMIT, json_body
from bot.gateway.errors import ApiError, invalid
from queueing.core.bounded_json import VALUES_MOST, BoundedRecord

NAME_LIMIT = 200  # characters of a model's name
WORDS = r"\S"
"""The pattern of a text that is not blank."""


class ClientRecord(BoundedRecord):
    """Base of what clients send: unknown fields are ignored, and null is the same as omitted.

    Clients send null for any optional field: n8n `strict: null`, LangChain `tools: null`. As the
    body of a request, it has at most `bytes_most` bytes and `values_most` values.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    bytes_most: ClassVar[int] = WORDS_LIMIT
    values_most: ClassVar[int] = VALUES_MOST


T = TypeVar("T", bound=ClientRecord)


async def read(kind: type[T], request: web.Request) -> T:
    """Return a request's JSON as a record. Raises `ApiError`, a 400 that names the field.

    The parser rejects hundreds of levels of nesting and numbers out of range.
    """
    try:
        return await json_body(
            request, kind.model_validate_json, limit=kind.bytes_most, values=kind.values_most
        )
    except ValidationError as error:
        raise wrong(error) from None


def wrong(error: ValidationError) -> ApiError:
    """Return the error for an invalid record: its first mistake."""
    first = error.errors(include_url=False, include_input=False)[0]
    path = dotted(first["loc"])
    if first["type"] == "union_tag_invalid":  # jobs have one of several kinds
        return invalid(f"kind: must be one of {first['ctx']['expected_tags']}.", param="kind")
    if not path and first["type"] == "value_error":
        return invalid(f"{_sentence(first)[:1].upper()}{_sentence(first)[1:]}.")
    if not path:
        return invalid(f"The body of the request must be a JSON object: {first['msg']}.")
    return invalid(f"{path}: {_sentence(first)}.", param=path)


def dotted(path: Sequence[str | int]) -> str:
    """Return the path of a value: "messages.0.content"."""
    return ".".join(str(step) for step in path)


def without_null(values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the fields that are not null."""
    return {name: value for name, value in values.items() if value is not None}


def _sentence(error: Any) -> str:
    text = str(error["msg"]).removeprefix("Value error, ")
    text = text.replace("Tuple should", "List should").replace(" after validation", "")
    if text.endswith(f"pattern '{WORDS}'"):
        return "there are no words in it"
    return "this field is required" if error["type"] == "missing" else text[:1].lower() + text[1:]
