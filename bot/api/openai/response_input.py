"""Converts the input items of `POST /v1/responses` to chat messages. Pure.

All kinds of items share one record, so that an error names the invalid field rather than every kind
that was tried. The items of a turn are a flat list. Servers, however, expect the function calls of
a turn in one message, followed by their outputs, and the system text at the beginning.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, JsonValue, field_validator, model_validator

from bot.api.calls.errors import in_words, invalid
from bot.api.calls.forms import NotData, data_of
from bot.api.openai.chat import PARTS_LIMIT, TEXT_LIMIT, Image, arguments_text, image_part
from bot.api.openai.records import ClientRecord
from bot.core.refusals import Declined
from bot.requests.files.documents import decoded, require_short

ITEMS = ("message", "function_call", "function_call_output", "reasoning")
TEXTS = frozenset({"input_text", "output_text", "text", "reasoning_text", "summary_text"})
PARTS = TEXTS | {"refusal", "input_image", "input_file"}
STORED = "nothing is stored here; send it in full"


class ResponsePart(ClientRecord):
    """A part of a message: text, an image or a text file."""

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
            raise ValueError(f"must be text, an image or a text file, not {self.type[:40]}")
        if self.file_id is not None:
            raise ValueError(f"file_id refers to a file, but {STORED}, as a data URL")
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
        """The part's text; None for an image or a file."""
        return self.refusal or "" if self.type == "refusal" else self.text


def _parts(value: Any) -> Any:
    return [{"type": "input_text", "text": value}] if isinstance(value, str) else value


Parts = Annotated[tuple[ResponsePart, ...], BeforeValidator(_parts), Field(max_length=PARTS_LIMIT)]
"""The content of a message. A plain string becomes one part."""


class ResponseItem(ClientRecord):
    """An input item: a message, a function call, a function's output, or earlier reasoning."""

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
            raise ValueError(f"item_reference refers to an item, but {STORED}")
        if kind is not None and kind not in ITEMS:
            raise ValueError(
                f"must be a message, a function call, its output or reasoning, not {kind!s:.40}"
            )
        if kind == "reasoning":  # other fields are encrypted content or summaries
            return {"type": kind, "content": value.get("content")}
        return {**value, "type": kind or "message"}

    @model_validator(mode="after")
    def _complete(self) -> Self:
        needed: dict[str, tuple[str, ...]] = {
            "message": ("role",),
            "function_call": ("call_id", "name"),
            "function_call_output": ("call_id", "output"),
        }
        for each in needed.get(self.type, ()):
            if getattr(self, each) is None:
                raise ValueError(f"{each} is required")
        return self


def items_of(value: Any) -> Any:
    """Convert the input to items. A plain string is a message by the user."""
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    return value


def call_of(item: ResponseItem) -> JsonValue:
    """Convert a function call to the chat completions format."""
    function: JsonValue = {"name": item.name, "arguments": item.arguments or ""}
    return {"id": item.call_id, "type": "function", "function": function}


Message = dict[str, Any]
NAME_SHOWN = 100  # characters of a file name


@dataclass(slots=True)
class InputMessages:
    """Collects chat messages, and their images in the order of their numbers.

    Function outputs can only be text. Images that a function returned follow in a separate message.
    """

    messages: list[Message] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)
    question: str = ""
    _thoughts: str = ""
    _returned: list[JsonValue] = field(default_factory=list)

    def read(self, instructions: str | None, items: Sequence[ResponseItem]) -> None:
        """Add the instructions and all items. Raises `ApiError` for unusable files."""
        if instructions:
            self._system(instructions)
        for at, item in enumerate(items):
            self._item(item, f"input.{at}")
        self._show_returned()

    def _item(self, item: ResponseItem, param: str) -> None:
        if item.type == "function_call_output":
            self._output(item, param)
            return
        self._show_returned()
        if item.type == "function_call":
            self._call(item)
        elif item.type == "reasoning":
            self._thoughts += _words(item.content or ())
        elif item.type == "message":
            self._message(item, param)

    def _message(self, item: ResponseItem, param: str) -> None:
        content = self._content(item.content or (), f"{param}.content")
        if item.role in {"system", "developer"} and not any(map(_is_image, content)):
            self._system(_text_of(content))
            return
        if item.role == "user" and (words := _words(item.content or ())):
            self.question = words
        role = "system" if item.role == "developer" else item.role
        last = self.messages[-1] if self.messages else {}
        if role == "assistant" == last.get("role") and last.get("content") is None:
            last["content"] = content  # text that follows the calls of the same turn
            return
        self._turn(role, content)

    def _turn(self, role: str | None, content: str | list[JsonValue] | None) -> Message:
        """Add a message. A message by the assistant gets the reasoning that preceded it."""
        message: Message = {"role": role, "content": content}
        if role == "assistant" and self._thoughts:
            message["reasoning_content"] = self._thoughts
        self._thoughts = ""
        self.messages.append(message)
        return message

    def _system(self, text: str) -> None:
        """Append to the system text: templates accept one system message, at the beginning."""
        first = self.messages[0] if len(self.messages) == 1 else {}
        if first.get("role") == "system" and isinstance(told := first["content"], str):
            first["content"] = f"{told}\n\n{text}"
        else:
            self.messages.append({"role": "system", "content": text})

    def _call(self, item: ResponseItem) -> None:
        last = self.messages[-1] if self.messages else {}
        if last.get("role") != "assistant":
            last = self._turn("assistant", None)
        calls = last.setdefault("tool_calls", [])
        calls.append(call_of(item))

    def _output(self, item: ResponseItem, param: str) -> None:
        parts = item.output or ()
        content = self._content(parts, f"{param}.output")
        if isinstance(content, list):
            self._returned += [part for part in content if _is_image(part)]
        self.messages.append(
            {"role": "tool", "tool_call_id": item.call_id, "content": _text_of(content)}
        )

    def _show_returned(self) -> None:
        if self._returned:
            self.messages.append({"role": "user", "content": self._returned})
            self._returned = []

    def _content(self, parts: Sequence[ResponsePart], param: str) -> str | list[JsonValue]:
        content = [self._part(part, f"{param}.{at}") for at, part in enumerate(parts)]
        if len(content) == 1 and not _is_image(content[0]):
            return _text_of(content)
        return content or ""

    def _part(self, part: ResponsePart, param: str) -> JsonValue:
        if part.type == "input_image":
            self.images.append(Image(url=part.image_url or "", param=f"{param}.image_url"))
            return image_part(len(self.images) - 1, part.detail)
        words = part.words
        return {"type": "text", "text": file_text(part, param) if words is None else words}


def file_text(part: ResponsePart, param: str) -> str:
    """Return the text of a file, under its name. Raises `ApiError`."""
    name = (part.filename or "file")[:NAME_SHOWN]
    data = part.file_data or ""
    try:
        require_short(name, len(data) * 3 // 4)  # base64 is longer than its content
        text = decoded(name, data_of(data))
    except NotData as error:
        raise invalid(f"{param}.file_data: {error}.", f"{param}.file_data") from None
    except Declined as declined:
        raise invalid(in_words(declined.refusal), f"{param}.file_data") from None
    return f"{name}\n{text}"


def _words(parts: Sequence[ResponsePart]) -> str:
    return "\n".join(words for part in parts if (words := part.words))


def _is_image(part: JsonValue) -> bool:
    return isinstance(part, dict) and part["type"] == "image"


def _text_of(content: str | list[JsonValue]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(
        str(part["text"]) for part in content if isinstance(part, dict) and "text" in part
    )
