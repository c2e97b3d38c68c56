"""Reads a text server's answer line by line, from server-sent events to the answer so far. Pure.

One reader serves all servers and handles the deviations seen in them (see the tests). The rules in
`backends.openai.flavours.errors` classify the errors that servers report.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue
from pydantic_core import from_json

from backends.common.http_replies import ErrorInAnswer
from backends.openai.answer_form import AnswerForm, Object
from backends.openai.reasoning import without_thoughts
from queueing.core.errors import UnreadableAnswer

FIELDS = frozenset({"data", "event", "id", "retry"})
READ = frozenset({"", "message", "error"})
"""The names of events that are read; others only keep a connection open."""
EVENT_LIMIT = 1_000_000  # characters of an event, or of an answer without events


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerEvent:
    """One event: its data lines, and whether its name marks it as an error."""

    lines: tuple[str, ...]
    error: bool = False


@dataclass(frozen=True, slots=True)
class PlainLine:
    """A line that is not a field of an event."""

    text: str


class EventReader:
    """Takes lines one by one and returns the event that a line completes, if any.

    It keeps only enough of an overlong event to detect that it is too long.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._length = 0
        self._name = ""
        self._first = True

    def feed(self, line: str) -> ServerEvent | PlainLine | None:
        """Take the next line, without its line end."""
        if self._first:
            self._first, line = False, line.removeprefix("\ufeff")
        if not line:
            return self.end()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            return self._data(value)
        if name == "event":
            self._name = value.strip()
        elif name == "error":  # llama.cpp before 2025-08 marks errors this way
            return ServerEvent(lines=(value,), error=True)
        elif name and name not in FIELDS:  # a comment begins with a colon
            return PlainLine(line)
        return None

    def end(self) -> ServerEvent | None:
        """Return the unfinished event; None if there is none or it contains nothing to read."""
        lines, name = tuple(self._lines), self._name
        self._lines, self._length, self._name = [], 0, ""
        if name not in READ or not any(line.strip() for line in lines):
            return None
        return ServerEvent(lines=lines, error=name == "error")

    def _data(self, value: str) -> ServerEvent | None:
        """Add a line of data; some servers omit the empty line between events."""
        begins = value.startswith("{") or is_done(value)
        ended = self.end() if begins and self._lines and self._lines[-1].endswith("}") else None
        if self._length <= EVENT_LIMIT:
            self._lines.append(value)
            self._length += len(value) + 1
        return ended


def is_done(data: str) -> bool:
    """Return whether an event's data marks the end of the stream."""
    return data.strip().casefold() == "[done]"


ANSWER_LIMIT = 400_000
"""Most characters of a text, of reasoning, or of tool calls; stops a model that repeats itself."""
LIKELY_LIMIT = 4_000_000
"""Characters of the events that hold log probabilities: 3,000 tokens with 20 alternatives each."""
KEPT_LIMIT = 32_000_000  # characters of all chunks that are kept for a program


class AnswerReader:
    """Takes the lines of a response one by one and holds the answer so far.

    - `finished`: OpenAI's finish reason ("stop", "length"), or None until it is known.
    - `model`: the name of the model that answers.
    - `ended`: whether further lines are ignored.
    - `silent`: whether no event arrived.
    - `thinks`: whether reasoning was left out.
    - `odd`: describes an unreadable part that was skipped.

    Set `interrupts` for a server that ends an interrupted answer like a complete one, except for
    the missing finish reason.
    """

    def __init__(self, *, interrupts: bool = False) -> None:
        self.form = AnswerForm()
        self.finished: str | None = None
        self.model: str | None = None
        self.ended = False
        self.silent = True
        self.thinks = False
        self.odd = ""
        self._events = EventReader()
        self._interrupts = interrupts
        self._parts: list[str] = []
        self._lengths: dict[str, int] = {}
        self._plain: list[str] = []
        self._plain_length = 0
        self._unread = ""  # the error of the last event, if it was unreadable
        self._complete = False  # the server sent the end marker

    @property
    def text(self) -> str:
        """The visible answer so far, without a leading block of reasoning."""
        return without_thoughts("".join(self._parts), over=self.finished is not None)

    def feed(self, line: str) -> bool:
        """Take one line; return whether it shows progress.

        Raises `ErrorInAnswer` for an error event and `UnreadableAnswer` for unreadable data.
        """
        if self.ended:
            return False
        found = self._events.feed(line)
        if found is None:
            return False
        return self._keep(found.text) if isinstance(found, PlainLine) else self._event(found)

    def take_chunks(self) -> tuple[str, ...]:
        """Return nothing, because only the text so far is reported."""
        return ()

    def close(self) -> None:
        """Handle the end of the stream, and read an answer that was not streamed.

        Raises the same errors as `feed`.
        """
        if not self.ended and (last := self._events.end()) is not None:
            self._event(last)
        if self._plain and self.silent and not self._unread:
            self._whole("\n".join(self._plain))
        if self._unread:
            raise UnreadableAnswer(self._unread)
        if self.finished is None and self._complete and self.said and not self._interrupts:
            self.finished = "stop"
        if self.finished is not None:
            self._complete_with(self.form.ending(self.finished))

    def _complete_with(self, chunks: Sequence[Object]) -> None:
        """Add the chunks that complete an answer."""
        for chunk in chunks:
            choice = chunk["choices"][0]
            self._keep_chunk(chunk)
            self._parts.append(choice["delta"].get("content", ""))
            self.finished = choice.get("finish_reason") or self.finished

    @property
    def only_thinks(self) -> bool:
        """Whether everything written so far is reasoning."""
        wrote = any(part.strip() for part in self._parts)
        return not self.text.strip() and (self.thinks or wrote)

    @property
    def said(self) -> bool:
        """Whether any part of the answer was readable."""
        lengths = (length for kind, length in self._lengths.items() if kind != "kept")
        return any(lengths) or bool(self.form.calls.calls)

    # ------------------------------------------------------------ events

    def _event(self, event: ServerEvent) -> bool:
        data = "\n".join(event.lines)
        if is_done(data):
            self.ended = self._complete = True
            return False
        if event.error:
            raise ErrorInAnswer(_reported(data))
        try:
            return self._take(data)
        except UnreadableAnswer as error:
            return self._pass_over(str(error))

    def _pass_over(self, cause: str) -> bool:
        """Skip an unreadable event; a second one in a row ends the answer."""
        if self._unread:
            raise UnreadableAnswer(cause)
        self._unread = cause
        return False

    def _take(self, data: str) -> bool:
        """Read the data of an event; return whether it shows progress."""
        event = parsed(data)
        if event.get("error"):
            raise ErrorInAnswer(event["error"])
        chunk = self.form.take(event)
        self._read(event.get("model"))
        if self.form.failed:
            raise ErrorInAnswer(f"the answer ended with {self.form.failed!a}")
        self._count("tool_calls", self.form.calls.length - self._lengths.get("tool_calls", 0))
        if chunk is None:
            return False
        self._keep_chunk(chunk)
        choice = chunk["choices"][0]
        if "logprobs" in choice:
            self._count("logprobs", len(data))
        for kind, said in choice["delta"].items():
            if kind != "tool_calls":
                self._say(kind, said)
        return True

    def _read(self, model: Any) -> None:
        """Record a readable event."""
        self.odd = self.odd or self._unread
        self._unread, self.silent = "", False
        if isinstance(model, str):
            self.model = model or self.model
        if not self.ended:
            self.finished = self.form.finish_reason

    def _keep_chunk(self, chunk: Object) -> None:
        """Keep a chunk in OpenAI's form; `PassedOnReader` implements this."""

    def _say(self, kind: str, said: str) -> None:
        self.thinks = self.thinks or kind == "reasoning_content"
        if kind == "content":
            self._parts.append(said)
        self._count(kind, len(said))

    def _count(self, kind: str, length: int) -> None:
        """Count the characters kept, and end an answer that is too long."""
        self._lengths[kind] = self._lengths.get(kind, 0) + length
        most = {"logprobs": LIKELY_LIMIT, "kept": KEPT_LIMIT}.get(kind, ANSWER_LIMIT)
        if self._lengths[kind] > most or self.form.calls.full:
            self.finished, self.ended = "length", True

    # ------------------------------------------------------------ answers that were not streamed

    def _keep(self, line: str) -> bool:
        """Keep a line outside events: LM Studio sends errors as plain JSON with status 200."""
        self._plain_length += len(line)
        if self._plain_length > EVENT_LIMIT:
            raise UnreadableAnswer("the server's answer is not an event stream")
        self._plain.append(line)
        return False

    def _whole(self, text: str) -> None:
        answer = parsed(text)
        if "choices" not in answer and not answer.get("error"):
            raise ErrorInAnswer(dict(answer))
        self._complete = True
        self._take(text)


def parsed(data: str) -> Mapping[str, Any]:
    """Parse the JSON object of an event, keeping lone surrogates.

    Raises `UnreadableAnswer` for invalid JSON of any length or depth.
    """
    if len(data) > EVENT_LIMIT:
        raise UnreadableAnswer(f"the server sent an event of more than {EVENT_LIMIT} characters")
    try:
        value = from_json(data)
    except (ValueError, TypeError):  # a lone surrogate outside an escape
        try:
            value = json.loads(data, strict=False)
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, dict):
        raise UnreadableAnswer(f"the server sent an unreadable answer: {data[:200]!a}")
    return value


def _reported(data: str) -> JsonValue:
    """Return the error that an error event reports."""
    try:
        told = parsed(data)
    except UnreadableAnswer:
        return data
    return told.get("error") or dict(told)
