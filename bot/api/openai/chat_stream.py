"""Chat completions in OpenAI's format, whole and streamed.

Servers use their own ids and model names. Clients get the same id, time and model in every chunk.
The order is one that all clients accept: the role, the pieces, the finish reason, then the usage if
requested.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from pydantic import JsonValue

from backends.common.json_template import PROBE, JsonTemplate
from bot.api.calls import sse
from bot.api.calls.errors import ApiError
from bot.api.runs.runs import Run
from bot.api.runs.views import line_of, place_of
from queueing.core.requests import Output

Object = dict[str, Any]
Around = tuple[bytes, ...]
"""The bytes around a chunk's text, as sent. The text of reasoning occurs twice, under two names."""
_BESIDE = ("timings", "system_fingerprint")
NO_USAGE: Object = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


@dataclass(frozen=True, kw_only=True, slots=True)
class Heading:
    """Fields shared by all chunks of an answer. `created` is in UNIX seconds.

    `metadata` lists the kinds of tools in the request that were dropped.
    """

    id: str
    model: str
    created: int
    metadata: Mapping[str, str] = field(default_factory=dict)

    def chunk(self, choices: Sequence[Any], **more: JsonValue) -> Object:
        """Build a chunk with these fields."""
        return {**self._names("chat.completion.chunk"), "choices": list(choices), **more}

    def renamed(self, chunk: Mapping[str, Any]) -> Object:
        """Return a server's chunk with these fields in place of its own."""
        choice = chunk["choices"][0]
        delta = under_both_names(choice["delta"])
        more = {name: chunk[name] for name in _BESIDE if name in chunk}
        likely = choice.get("logprobs")
        likely = {"refusal": None, **likely} if likely else None
        made = _choice(delta, choice.get("finish_reason"), likely)
        return self.chunk([made], **more)

    def whole(self, output: Output) -> Object:
        """Return the answer to a call that does not stream."""
        answer = answer_of(output)
        probabilities = answer.get("logprobs")
        choice: Object = {
            "index": 0,
            "message": {"role": "assistant", **under_both_names(answer["message"])},
            "logprobs": {"content": probabilities, "refusal": None} if probabilities else None,
            "finish_reason": _finish_reason(answer),
        }
        more = {name: answer[name] for name in _BESIDE if name in answer}
        names = self._names("chat.completion")
        return {**names, "choices": [choice], **more, "usage": answer.get("usage") or NO_USAGE}

    def _names(self, kind: str) -> Object:
        names: Object = {"id": self.id, "object": kind, "created": self.created}
        names["model"] = self.model
        return {**names, "metadata": {**self.metadata}} if self.metadata else names


class PlaceForm(StrEnum):
    """How a stream reports the place in the queue.

    Every client skips comments. Separate data lines are for clients that request them. Open WebUI
    shows the `event` of a data line as the answer's status.
    """

    COMMENT = "comment"
    DATA = "data"
    OPEN_WEBUI = "openwebui"


class ChunkHeading(Protocol):
    """Fields shared by all chunks of an answer."""

    def chunk(self, choices: Sequence[Any], **more: Any) -> Object:
        """Build a chunk with these fields."""


@dataclass(kw_only=True)
class ChunkStream(ABC):
    """Forwards a server's chunks with new ids. Implements `bot.api.runs.answers.Writer`.

    Chunks that differ from an earlier one only in their text are not parsed.
    """

    heading: ChunkHeading
    usage: bool = False
    form: PlaceForm = PlaceForm.COMMENT
    sent: int = 0
    known: JsonTemplate[Around] = field(init=False)

    def __post_init__(self) -> None:
        """Set up the recognition of chunks that differ only in their text."""
        self.known = JsonTemplate(self._around)

    @property
    def begun(self) -> bool:
        """Whether a chunk of the answer has been sent."""
        return self.sent > 0

    def news(self, run: Run) -> bytes:
        """Return the server's new chunks with this answer's fields, after any opening events."""
        fresh = run.chunks_after(self.sent)
        if not fresh:
            return b""
        first = b"" if self.begun else self._opening()
        self.sent += len(fresh)
        return first + b"".join([self._one(chunk) for chunk in fresh])

    def place(self, run: Run) -> bytes:
        """Return the place in the queue in the form the client supports."""
        match self.form:
            case PlaceForm.DATA:
                return self._event([], usher=place_of(run))
            case PlaceForm.OPEN_WEBUI:
                return self._status(line_of(run), done=False)
        return sse.comment(place_of(run))

    def keeping(self) -> bytes:
        """Return an empty chunk, because LangChain gives up 120 s after the last chunk."""
        return self._event([])

    def failing(self, error: ApiError) -> bytes:
        """Return an error event in place of the end. SDKs raise an exception for it."""
        return sse.data(error.body)

    @abstractmethod
    def _opening(self) -> bytes:
        """Return the events before the first chunk."""

    @abstractmethod
    def _renamed(self, chunk: str) -> bytes:
        """Return a server's chunk with this answer's fields."""

    def _one(self, chunk: str) -> bytes:
        if (found := self.known.read(chunk)) is not None:
            around, said = found
            return said.encode().join(around)
        data = self._renamed(chunk)
        self.known.learn(chunk)
        return data

    def _around(self, chunk: str) -> Around | None:
        """Return the bytes around a chunk's text, which is `PROBE`; None if it has no such text."""
        around = tuple(self._renamed(chunk).split(PROBE.encode()))
        return around if len(around) > 1 else None

    def _status(self, text: str, *, done: bool) -> bytes:
        data: Object = {"description": text, "done": done, "hidden": done}
        return self._event([], event={"type": "status", "data": data})

    def _event(self, choices: Sequence[Any], **more: Any) -> bytes:
        return sse.data(self.heading.chunk(choices, **more))


@dataclass(kw_only=True)
class ChatStream(ChunkStream):
    """Writes the events of a streamed chat completion."""

    heading: Heading
    status_open: bool = False

    def place(self, run: Run) -> bytes:
        """Return the place in the queue. A status in Open WebUI has to be cleared later."""
        self.status_open = self.form is PlaceForm.OPEN_WEBUI
        return super().place(run)

    def closing(self, output: Output) -> bytes:
        """Return the end of the stream, including the whole answer if none of it was sent."""
        answer = answer_of(output)
        events = [self._status_done() if self.begun else self._opening() + self._all_of(answer)]
        if self.usage:
            more = {name: answer[name] for name in _BESIDE if name in answer}
            events.append(self._event([], usage=answer.get("usage") or NO_USAGE, **more))
        return b"".join((*events, sse.DONE))

    def failing(self, error: ApiError) -> bytes:
        """Return an error event in place of the end. SDKs raise an exception for it."""
        return self._status_done() + super().failing(error)

    def _renamed(self, chunk: str) -> bytes:
        return sse.data(self.heading.renamed(json.loads(chunk)))

    def _status_done(self) -> bytes:
        if not self.status_open:
            return b""
        self.status_open = False
        return self._status("", done=True)

    def _opening(self) -> bytes:
        return self._status_done() + self._event([_choice({"role": "assistant", "content": ""})])

    def _all_of(self, answer: Object) -> bytes:
        message = under_both_names(answer["message"])
        delta = {name: value for name, value in message.items() if value}
        if calls := delta.get("tool_calls"):
            delta["tool_calls"] = [{"index": n, **call} for n, call in enumerate(calls)]
        said = self._event([_choice(delta)]) if delta else b""
        return said + self._event([_choice({}, _finish_reason(answer))])


def answer_of(output: Output) -> Object:
    """Return the server's answer.

    A chat's job has only a text, which is converted to the same form.
    """
    if output.answer:
        answer: Object = json.loads(output.answer)
        return answer
    return {"message": {"content": output.text, "refusal": None}, "finish_reason": "stop"}


def under_both_names(said: Object) -> Object:
    """Copy the reasoning of a message or delta to both names that clients read."""
    thought = said.get("reasoning_content")
    return said if thought is None else {**said, "reasoning": thought}


def _finish_reason(answer: Object) -> str:
    called = bool(answer["message"].get("tool_calls"))
    return answer.get("finish_reason") or ("tool_calls" if called else "stop")


def _choice(
    delta: JsonValue, finish_reason: str | None = None, logprobs: JsonValue = None
) -> Object:
    return {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
