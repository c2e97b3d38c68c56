"""The input of `POST /v1/responses`: items, each with its parts, as clients send them. Pure.

One record serves for all kinds of items, so that the error for a bad one names the field and not
the kinds that were tried.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, JsonValue, field_validator, model_validator

from bot.api.openai.messages import PARTS_LIMIT, TEXT_LIMIT, arguments_text
from bot.api.openai.records import ClientRecord

ITEMS = ("message", "function_call", "function_call_output", "reasoning")
TEXTS = frozenset({"input_text", "output_text", "text", "reasoning_text", "summary_text"})
PARTS = TEXTS | {"refusal", "input_image", "input_file"}
STORED = "nothing is stored here; send it whole"


class ResponsePart(ClientRecord):
    """A part of a message: a text, a picture or a text file."""

    type: str
    text: str | None = Field(default=None, max_length=TEXT_LIMIT)
    refusal: str | None = Field(default=None, max_length=TEXT_LIMIT)
    image_url: str | None = None
    detail: str | None = Field(default=None, max_length=20)
    file_id: str | None = None
    file_url: str | None = None
    file_data: str | None = None
    filename: str | None = Field(default=None, max_length=1_000)

    @field_validator("image_url", mode="before")
    @classmethod
    def _as_in_chat_completions(cls, value: Any) -> Any:
        return value.get("url") if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.type not in PARTS:
            raise ValueError(f"must be a text, a picture or a text file, not {self.type[:40]}")
        if self.file_id is not None:
            raise ValueError(f"file_id names a file, but {STORED}, as a data URL")
        if self.file_url is not None:
            raise ValueError("this server does not fetch file_url; send the file as a data URL")
        if self.type in TEXTS and self.text is None:
            raise ValueError("text is required")
        if self.type == "input_image" and not self.image_url:
            raise ValueError("image_url is required")
        if self.type == "input_file" and not self.file_data:
            raise ValueError("file_data is required")
        return self

    @property
    def words(self) -> str | None:
        """The text of the part; None for a picture or a file."""
        return self.refusal or "" if self.type == "refusal" else self.text


def _parts(value: Any) -> Any:
    return [{"type": "input_text", "text": value}] if isinstance(value, str) else value


Parts = Annotated[tuple[ResponsePart, ...], BeforeValidator(_parts), Field(max_length=PARTS_LIMIT)]
"""The content of a message; a plain string is one part."""


class ResponseItem(ClientRecord):
    """An item: a message, a function call, the output of one, or earlier reasoning."""

    type: Literal["message", "function_call", "function_call_output", "reasoning"] = "message"
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: Parts | None = None
    call_id: str | None = Field(default=None, max_length=256)
    name: str | None = Field(default=None, max_length=256)
    arguments: Annotated[str | None, BeforeValidator(arguments_text)] = Field(
        default=None, max_length=TEXT_LIMIT
    )
    output: Parts | None = None

    @model_validator(mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        kind = value.get("type")
        if kind == "item_reference":
            raise ValueError(f"item_reference names an item, but {STORED}")
        if kind is not None and kind not in ITEMS:
            raise ValueError(
                f"must be a message, a function call, its output or reasoning, not {kind!s:.40}"
            )
        if kind == "reasoning":  # the rest is what its server hid, or a summary
            return {"type": kind, "content": value.get("content")}
        return {**value, "type": kind or "message"}

    @model_validator(mode="after")
    def _complete(self) -> Self:
        needed: dict[str, tuple[str, ...]] = {
            "message": ("role",),
            "function_call": ("call_id", "name"),
            "function_call_output": ("call_id", "output"),
        }
        for field in needed.get(self.type, ()):
            if getattr(self, field) is None:
                raise ValueError(f"{field} is required")
        return self


def items_of(value: Any) -> Any:
    """Return the input as items: a plain string is a message of the user."""
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    return value


def call_of(item: ResponseItem) -> JsonValue:
    """Return a function call as chat completions write it."""
    function: JsonValue = {"name": item.name, "arguments": item.arguments or ""}
    return {"id": item.call_id, "type": "function", "function": function}
