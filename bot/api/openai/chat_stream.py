"""Answers of chat completions in OpenAI's format: streamed in chunks, and whole.

Servers use their own model names and ids. A client gets the same id, time and model in every chunk,
in the order that all clients accept: the role, then the pieces, then the finish reason, then the
usage if it was requested.
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
"""What stands around the text of a chunk, as it is sent; thoughts are sent under two names."""
_BESIDE = ("timings", "system_fingerprint")
NO_USAGE: Object = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


@dataclass(frozen=True, kw_only=True, slots=True)
class Heading:
    """The fields that all chunks of one answer share; `created` is in UNIX seconds.

    `metadata` say what of the request was left out.
    """

    id: str
    model: str
    created: int
    metadata: Mapping[str, str] = field(default_factory=dict)

    def chunk(self, choices: Sequence[Any], **more: JsonValue) -> Object:
        """Return a chunk with this heading."""
        return {**self._names("chat.completion.chunk"), "choices": list(choices), **more}

    def renamed(self, chunk: Mapping[str, Any]) -> Object:
        """Return a chunk in OpenAI's form as one of this answer."""
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
    """How a stream reports the place in line.

    Any client skips comments. Data lines of their own are for clients that ask for them; Open WebUI
    shows the `event` of one as the status of its answer.
    """

    COMMENT = "comment"
    DATA = "data"
    OPEN_WEBUI = "openwebui"


class ChunkHeading(Protocol):
    """The fields that all chunks of one answer share."""

    def chunk(self, choices: Sequence[Any], **more: Any) -> Object:
        """Return a chunk with this heading."""


@dataclass(kw_only=True)
class ChunkStream(ABC):
    """Passes a server's chunks on under another heading; implements `bot.api.runs.answers.Writer`.

    Those that differ from an earlier one in their text alone are not parsed.
    """

    heading: ChunkHeading
    usage: bool = False
    form: PlaceForm = PlaceForm.COMMENT
    sent: int = 0
    known: JsonTemplate[Around] = field(init=False)

    def __post_init__(self) -> None:
        """Prepare to recognise chunks that differ in their text alone."""
        self.known = JsonTemplate(self._around)

    @property
    def begun(self) -> bool:
        """Whether a chunk of the answer has been sent."""
        return self.sent > 0

    def news(self, run: Run) -> bytes:
        """Return a server's new chunks with this answer's heading, preceded by its opening."""
        fresh = run.chunks_after(self.sent)
        if not fresh:
            return b""
        first = b"" if self.begun else self._opening()
        self.sent += len(fresh)
        return first + b"".join([self._one(chunk) for chunk in fresh])

    def place(self, run: Run) -> bytes:
        """Return the place in line in the form this client shows."""
        match self.form:
            case PlaceForm.DATA:
                return self._event([], usher=place_of(run))
            case PlaceForm.OPEN_WEBUI:
                return self._status(line_of(run), done=False)
        return sse.comment(place_of(run))

    def keeping(self) -> bytes:
        """Return an empty chunk: LangChain gives up 120 s after the last one."""
        return self._event([])

    def failing(self, error: ApiError) -> bytes:
        """Return the error in place of the end, for which SDKs raise an exception."""
        return sse.data(error.body)

    @abstractmethod
    def _opening(self) -> bytes:
        """Return what precedes the first chunk."""

    @abstractmethod
    def _renamed(self, chunk: str) -> bytes:
        """Return a server's chunk as one of this answer."""

    def _one(self, chunk: str) -> bytes:
        if (found := self.known.read(chunk)) is not None:
            around, said = found
            return said.encode().join(around)
        data = self._renamed(chunk)
        self.known.learn(chunk)
        return data

    def _around(self, chunk: str) -> Around | None:
        """Return what stands around the text of a chunk that says `PROBE`, None if it does not."""
        around = tuple(self._renamed(chunk).split(PROBE.encode()))
        return around if len(around) > 1 else None

    def _status(self, text: str, *, done: bool) -> bytes:
        data: Object = {"description": text, "done": done, "hidden": done}
        return self._event([], event={"type": "status", "data": data})

    def _event(self, choices: Sequence[Any], **more: Any) -> bytes:
        return sse.data(self.heading.chunk(choices, **more))


@dataclass(kw_only=True)
class ChatStream(ChunkStream):
    """Writes the events of a streamed answer."""

    heading: Heading
    status_open: bool = False

    def place(self, run: Run) -> bytes:
        """Return the place in line; a status that is shown must be taken back."""
        self.status_open = self.form is PlaceForm.OPEN_WEBUI
        return super().place(run)

    def closing(self, output: Output) -> bytes:
        """Return the end of the stream, with the whole answer if none of it has been sent."""
        answer = answer_of(output)
        events = [self._status_done() if self.begun else self._opening() + self._all_of(answer)]
        if self.usage:
            more = {name: answer[name] for name in _BESIDE if name in answer}
            events.append(self._event([], usage=answer.get("usage") or NO_USAGE, **more))
        return b"".join((*events, sse.DONE))

    def failing(self, error: ApiError) -> bytes:
        """Return the error in place of the end, for which SDKs raise an exception."""
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
    """Return what a server answered; for a job from a chat, its text in the same form."""
    if output.answer:
        answer: Object = json.loads(output.answer)
        return answer
    return {"message": {"content": output.text, "refusal": None}, "finish_reason": "stop"}


def under_both_names(said: Object) -> Object:
    """Return a message, or a piece of one, with its thoughts under the names that clients read."""
    thought = said.get("reasoning_content")
    return said if thought is None else {**said, "reasoning": thought}


def _finish_reason(answer: Object) -> str:
    called = bool(answer["message"].get("tool_calls"))
    return answer.get("finish_reason") or ("tool_calls" if called else "stop")


def _choice(
    delta: JsonValue, finish_reason: str | None = None, logprobs: JsonValue = None
) -> Object:
    return {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
