"""The base of all records that clients send, and the errors for invalid ones."""

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from aiohttp import web
from pydantic import ConfigDict, ValidationError

from bot.api.calls.bodies import WORDS_LIMIT, json_body
from bot.api.calls.errors import ApiError, invalid
from bot.api.openai.mistakes import WORDS, mistake
from queueing.core.bounded_json import VALUES_MOST, BoundedRecord

__all__ = ["NAME_LIMIT", "WORDS", "ClientRecord", "dotted", "read", "wrong"]

NAME_LIMIT = 200  # characters of a model's name


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
        raise wrong(error, kind) from None


def wrong(error: ValidationError, kind: Any) -> ApiError:
    """Return the error for an invalid record of that kind: its worst mistake."""
    steps, sentence = mistake(error, kind)
    path = dotted(steps)
    if path:
        return invalid(f"{path}: {sentence}.", param=path)
    if error.errors(include_url=False, include_input=False)[0]["type"] == "value_error":
        return invalid(f"{sentence[:1].upper()}{sentence[1:]}.")
    return invalid(f"The body of the request must be a JSON object: {sentence}.")


def dotted(path: Sequence[str | int]) -> str:
    """Return the path of a value: "messages.0.content"."""
    return ".".join(str(step) for step in path)
