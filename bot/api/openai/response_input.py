"""Turns the items of a response's input into the messages of a chat completion. Pure.

The items of a turn are flat; servers expect a turn's function calls in one message, followed by
their outputs, and the system's text at the beginning.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from bot.api.calls.data_urls import NotData, data_of
from bot.api.calls.errors import invalid
from bot.api.calls.outcomes import in_words
from bot.api.openai.messages import Picture, picture_part
from bot.api.openai.response_items import ResponseItem, ResponsePart, call_of
from bot.core.refusals import Declined
from bot.requests.documents import decoded, require_short

Message = dict[str, Any]
NAME_SHOWN = 100  # characters of a file's name


@dataclass(slots=True)
class InputTurns:
    """The messages so far, and their pictures in the order in which messages number them.

    Pictures that functions returned follow the outputs in a message of their own, because the
    output of a function can only be text.
    """

    messages: list[Message] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
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
        if item.role in {"system", "developer"} and not any(map(_is_picture, content)):
            self._system(_text_of(content))
            return
        if item.role == "user" and (words := _words(item.content or ())):
            self.question = words
        role = "system" if item.role == "developer" else item.role
        last = self.messages[-1] if self.messages else {}
        if role == "assistant" == last.get("role") and last.get("content") is None:
            last["content"] = content  # said after the calls of the same turn
            return
        self._turn(role, content)

    def _turn(self, role: str | None, content: str | list[JsonValue] | None) -> Message:
        """Add a message, an assistant's with what was thought before it."""
        message: Message = {"role": role, "content": content}
        if role == "assistant" and self._thoughts:
            message["reasoning_content"] = self._thoughts
        self._thoughts = ""
        self.messages.append(message)
        return message

    def _system(self, text: str) -> None:
        """Add to the system's text: templates take one such message, at the beginning."""
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
            self._returned += [part for part in content if _is_picture(part)]
        self.messages.append(
            {"role": "tool", "tool_call_id": item.call_id, "content": _text_of(content)}
        )

    def _show_returned(self) -> None:
        if self._returned:
            self.messages.append({"role": "user", "content": self._returned})
            self._returned = []

    def _content(self, parts: Sequence[ResponsePart], param: str) -> str | list[JsonValue]:
        content = [self._part(part, f"{param}.{at}") for at, part in enumerate(parts)]
        if len(content) == 1 and not _is_picture(content[0]):
            return _text_of(content)
        return content or ""

    def _part(self, part: ResponsePart, param: str) -> JsonValue:
        if part.type == "input_image":
            self.pictures.append(Picture(url=part.image_url or "", param=f"{param}.image_url"))
            return picture_part(len(self.pictures) - 1, part.detail)
        words = part.words
        return {"type": "text", "text": file_text(part, param) if words is None else words}


def file_text(part: ResponsePart, param: str) -> str:
    """Return what a text file says, under its name. Raises `ApiError`."""
    name = (part.filename or "file")[:NAME_SHOWN]
    data = part.file_data or ""
    try:
        require_short(name, len(data) * 3 // 4)  # base64 is longer than what it says
        text = decoded(name, data_of(data))
    except NotData as error:
        raise invalid(f"{param}.file_data: {error}.", f"{param}.file_data") from None
    except Declined as declined:
        raise invalid(in_words(declined.refusal), f"{param}.file_data") from None
    return f"{name}\n{text}"


def _words(parts: Sequence[ResponsePart]) -> str:
    return "\n".join(words for part in parts if (words := part.words))


def _is_picture(part: JsonValue) -> bool:
    return isinstance(part, dict) and part["type"] == "picture"


def _text_of(content: str | list[JsonValue]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(
        str(part["text"]) for part in content if isinstance(part, dict) and "text" in part
    )
