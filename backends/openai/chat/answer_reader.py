"""Reads a text server's answer line by line, from server-sent events to the answer so far. Pure.

One reader serves all servers and handles the deviations seen in them (see the tests). The rules in
`backends.openai.flavours.errors` classify the errors that servers report.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pydantic import JsonValue
from pydantic_core import from_json

from backends.common.http_replies import ErrorInAnswer
from backends.openai.chat.answer_events import (
    EVENT_LIMIT,
    EventReader,
    PlainLine,
    ServerEvent,
    is_done,
    joined_events,
)
from backends.openai.chat.answer_form import AnswerForm, Object
from backends.openai.chat.reasoning import opened_by_template, without_thoughts
from queueing.core.errors import UnreadableAnswer

OF_ANSWERS = frozenset({"choices", "error", "done"})
"""The fields by which JSON outside events is recognised; `done` is Ollama's own."""
OF_JSON = '{"'
"""Every part of an answer contains this. Words, times and null only keep a connection open."""
WELL = frozenset({0, 200, "0", "200", "ok", ""})  # codes that are no errors
_CODES = ("code", "error_code", "status_code")
_WORDS = ("message", "msg", "error_msg", "status_msg")
SHOWN = ("content", "refusal")  # the texts that a chat shows
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
    the missing finish reason, and `opened` for a model whose last answer had reasoning without an
    opening mark.
    """

    def __init__(self, *, interrupts: bool = False, opened: bool = False) -> None:
        self.form = AnswerForm()
        self.finished: str | None = None
        self.model: str | None = None
        self.ended = False
        self.silent = True
        self.thinks = False
        self.odd = ""
        self._events = EventReader()
        self._interrupts = interrupts
        self._opened = opened
        self._parts: list[str] = []
        self._lengths: dict[str, int] = {}
        self._plain: list[str] = []
        self._plain_length = 0
        self._unread = ""  # the error of the last event, if it was unreadable
        self._complete = False  # the server sent the end marker

    @property
    def text(self) -> str:
        """The visible answer so far, without a leading block of reasoning."""
        over = self.finished is not None
        return without_thoughts("".join(self._parts), over=over, opened=self._opened)

    @property
    def opened_by_template(self) -> bool:
        """Whether the template opened a block of reasoning, which only its closing mark shows."""
        return opened_by_template("".join(self._parts))

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
            text = "\n".join(self._plain)
            for each in joined_events(text) or (text,):
                self._whole(each)
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
            self._parts += (choice["delta"].get(kind, "") for kind in SHOWN)
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
        if event.error:
            raise ErrorInAnswer(_reported(data))
        try:
            return self._data(data)
        except UnreadableAnswer as error:
            if not (several := joined_events(data)):
                return self._pass_over(str(error))
        progress = [self._event(ServerEvent(lines=(each,))) for each in several]
        return any(progress)

    def _data(self, data: str) -> bool:
        if is_done(data):
            self.ended = self._complete = True
            return False
        return any(sign in data for sign in OF_JSON) and self._take(data)

    def _pass_over(self, cause: str) -> bool:
        """Skip an unreadable event; a second one in a row ends the answer.

        What comes after the end of an answer does not matter.
        """
        if self.finished is not None:
            self.odd = self.odd or cause
            return False
        if self._unread:
            raise UnreadableAnswer(cause)
        self._unread = cause
        return False

    def _take(self, data: str) -> bool:
        """Read the data of an event; return whether it shows progress."""
        event = parsed(data)
        if (error := _error_in(event)) is not None:
            raise ErrorInAnswer(error)
        self._complete = self._complete or event.get("object") == "chat.completion"
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
            self.model = self.model or model or None  # some name a version later on
        if not self.ended:
            self.finished = self.form.finish_reason

    def _keep_chunk(self, chunk: Object) -> None:
        """Keep a chunk in OpenAI's form; `PassedOnReader` implements this."""

    def _say(self, kind: str, said: str) -> None:
        self.thinks = self.thinks or kind == "reasoning_content"
        if kind in SHOWN:
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
        """Take a line outside events: JSON, or a part of it. Returns whether it shows progress.

        Some servers send a whole answer, or one event on each line, or an error with status 200.
        """
        if not self._plain and line.rstrip().endswith("}"):
            with suppress(UnreadableAnswer):
                return self._whole(line)
        self._plain_length += len(line)
        if self._plain_length > EVENT_LIMIT:
            raise UnreadableAnswer("the server's answer is not an event stream")
        self._plain.append(line)
        return False

    def _whole(self, text: str) -> bool:
        event = parsed(text)
        if event.keys().isdisjoint(OF_ANSWERS):
            if not self.silent:
                return False
            raise ErrorInAnswer(dict(event))
        streamed = '"delta"' in text or event.get("done") is False
        progress = self._take(text)
        self._complete = self._complete or not streamed
        return progress


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


def _error_in(event: Mapping[str, Any]) -> JsonValue:
    """Return the error that an event reports, for the answer or for a choice; None without one."""
    choices = event.get("choices")
    if not choices and _is_error(event):
        return event.get("error") or dict(event)
    listed = choices if isinstance(choices, list) else []
    found = (each.get("error") for each in (event, *listed) if isinstance(each, Mapping))
    return next((error for error in found if error), None)


def _is_error(event: Mapping[str, Any]) -> bool:
    """Return whether an event without an answer is an error by its name, its code or its fields."""
    if "error" in (event.get("object"), event.get("type")) or event.get("success") is False:
        return True
    told = event.get("base_resp")  # MiniMax
    told = told if isinstance(told, Mapping) else event
    code = next((told[name] for name in _CODES if told.get(name)), 0)
    words = next((told[name] for name in _WORDS if told.get(name)), None)
    failed = isinstance(code, int | str) and code not in WELL and isinstance(words, str)
    return failed or isinstance(event.get("detail"), str)


def _reported(data: str) -> JsonValue:
    """Return the error that an error event reports."""
    try:
        told = parsed(data)
    except UnreadableAnswer:
        return data
    return told.get("error") or dict(told)
