"""The base of all records that clients send, and how what is wrong in one is said."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from bot.gateway.errors import ApiError, invalid

T = TypeVar("T", bound=BaseModel)
NAME_LIMIT = 200  # characters of a model's name


class ClientRecord(BaseModel):
    """Base of what clients send: unknown fields are left out, and null is the same as none.

    n8n sends `strict: null`, LangChain `tools: null`: clients write null for any optional field.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")


def read(kind: type[T], body: bytes) -> T:
    """Return a request's JSON as a record. Raises `ApiError`, a 400 that names the field.

    The reader stops at some hundred levels of nesting and at numbers it cannot hold.
    """
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise wrong(error) from None


def wrong(error: ValidationError) -> ApiError:
    """Return what is said of a record that cannot be read: its first mistake."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = dotted(first["loc"])
    if not path:
        return invalid(f"The body of the request must be a JSON object: {first['msg']}.")
    return invalid(f"{path}: {_sentence(first)}.", param=path)


def dotted(path: Sequence[str | int]) -> str:
    """Return where a value stands: "messages.0.content"."""
    return ".".join(str(step) for step in path)


def without_null(values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the fields that say something."""
    return {name: value for name, value in values.items() if value is not None}


def _sentence(error: Any) -> str:
    text = str(error["msg"]).removeprefix("Value error, ")
    return "this field is required" if error["type"] == "missing" else text[:1].lower() + text[1:]
