"""Answers of `POST /v1/responses`: whole, and as a stream of typed events.

A stream begins at once, before the job runs. Events are numbered, and the last one contains the
whole response, as OpenAI's SDKs expect.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from backends.common.json_template import PROBE, JsonTemplate
from bot.api.calls import sse
from bot.api.calls.errors import ApiError
from bot.api.openai.chat_stream import NO_USAGE, PlaceForm, answer_of
from bot.api.openai.response_output import Object, OutputItems, delta_event, likely_in, objects_in
from bot.api.openai.response_request import Responses, ResponseToolChoice
from bot.api.runs.runs import Run
from bot.api.runs.views import line_of, place_of
from queueing.core.requests import Output

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ResponseFrame:
    """A response without its output: its settings, ids and times. `number` is the job's."""

    number: int
    created: int
    asked: Responses

    def response(self, status: str, output: list[Object], **more: Any) -> Object:
        """Build the response with this status."""
        asked = self.asked
        response: Object = {
            "id": f"resp_{self.number}",
            "object": "response",
            "created_at": self.created,
            "status": status,
            "model": asked.model,
            "output": output,
            "error": None,
            "incomplete_details": None,
            "background": False,
            "store": False,
            "previous_response_id": None,
            "truncation": "disabled",
        }
        return response | _settings(asked) | more

    def finished(self, output: list[Object], answer: Mapping[str, Any]) -> Object:
        """Build the final response, whether complete or cut off by a limit."""
        usage = _usage(answer.get("usage") or NO_USAGE)
        if (reason := _INCOMPLETE.get(answer.get("finish_reason") or "")) is not None:
            details = {"reason": reason}
            return self.response("incomplete", output, incomplete_details=details, usage=usage)
        return self.response("completed", output, completed_at=int(time.time()), usage=usage)

    def whole(self, output: Output) -> Object:
        """Return the answer to a call that does not stream."""
        answer, items = answer_of(output), OutputItems(self.number)
        add_answer(items, answer)
        return self.finished(items.items, answer)


def add_answer(items: OutputItems, answer: Mapping[str, Any]) -> list[Object]:
    """Add a whole answer and return the events for it."""
    events = items.take(answer["message"], objects_in(answer.get("logprobs")))
    return events + items.close(complete=is_complete(answer))


def is_complete(answer: Mapping[str, Any]) -> bool:
    """Return whether the model finished its answer."""
    return answer.get("finish_reason") not in _INCOMPLETE


def _settings(asked: Responses) -> Object:
    """Return the fields that repeat the request. None means the model's default."""
    settings: Object = {
        "instructions": asked.instructions,
        "max_output_tokens": asked.max_output_tokens,
        "temperature": asked.temperature,
        "top_p": asked.top_p,
        "top_logprobs": asked.top_logprobs or 0,
        "metadata": asked.told,
        "parallel_tool_calls": asked.parallel_tool_calls is not False,
        "tool_choice": _choice(asked),
        "tools": [tool.model_dump(mode="json") for tool in asked.offered],
        "reasoning": {"effort": asked.reasoning and asked.reasoning.effort, "summary": None},
        "text": {"format": asked.format.as_sent()},
    }
    return settings if asked.user is None else {**settings, "user": asked.user}


def _choice(asked: Responses) -> Any:
    choice = asked.tool_choice
    if not isinstance(choice, ResponseToolChoice):
        return choice or "auto"
    if choice.type == "function":
        return {"type": "function", "name": choice.name}
    tools = [{"type": "function", "name": tool.name} for tool in choice.tools or ()]
    return {"type": "allowed_tools", "mode": choice.mode or "auto", "tools": tools}


def _usage(told: Mapping[str, Any]) -> Object:
    """Convert a server's token counts to the names used in responses."""
    asked, answered = _count(told, "prompt_tokens"), _count(told, "completion_tokens")
    cached = _count(told.get("prompt_tokens_details"), "cached_tokens")
    thought = _count(told.get("completion_tokens_details"), "reasoning_tokens")
    return {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": _count(told, "total_tokens") or asked + answered,
    }


def _count(told: Any, name: str) -> int:
    """Return a token count, or 0 if the server does not report it."""
    count = told.get(name) if isinstance(told, Mapping) else None
    return count if isinstance(count, int) else 0


_FIRST = ("response.output_item.added", "response.content_part.added", "the first words")
"""The events for the first piece of a text."""


@dataclass(kw_only=True, slots=True)
class ResponseStream:
    """Writes the events of a streamed response. Implements `bot.api.runs.answers.Writer`."""

    frame: ResponseFrame
    items: OutputItems
    form: PlaceForm = PlaceForm.COMMENT
    sent: int = 0
    number: int = 0
    known: JsonTemplate[str] = field(init=False)
    _status_open: bool = field(default=False, init=False)
    _around: tuple[Object, bytes, bytes] = field(default=({}, b"", b""), init=False)

    def __post_init__(self) -> None:
        """Set up the recognition of chunks that differ only in their text."""
        self.known = JsonTemplate(_only_text)

    @property
    def begun(self) -> bool:
        """Whether a piece of the answer was received."""
        return self.sent > 0

    def news(self, run: Run) -> bytes:
        """Return the events for a server's new chunks."""
        fresh = run.chunks_after(self.sent)
        if not fresh:
            return b""
        first = b"" if self.begun else self._opening() + self._status_done()
        self.sent += len(fresh)
        return first + b"".join([self._one(chunk) for chunk in fresh])

    def place(self, run: Run) -> bytes:
        """Return the place in the queue in the form the client supports."""
        opening = self._opening()
        if self.begun or self.form is PlaceForm.COMMENT:
            return opening + sse.comment(place_of(run))
        if self.form is PlaceForm.DATA:
            return opening + self._lifecycle("response.in_progress", usher=place_of(run))
        self._status_open = True
        return opening + self._status(line_of(run), done=False)

    def keeping(self) -> bytes:
        """Return an event without content: LangChain gives up 120 s after the last event."""
        return self._opening() + self._lifecycle("response.in_progress")

    def closing(self, output: Output) -> bytes:
        """Return the end of the stream, including the whole answer if none of it was sent."""
        answer, items = answer_of(output), self.items
        events = [self._opening(), self._status_done()]
        made = (
            add_answer(items, answer)
            if not self.begun
            else items.close(complete=is_complete(answer))
        )
        events += [self._event(event) for event in made]
        response = self.frame.finished(items.items, answer)
        return b"".join((*events, self._of(f"response.{response['status']}", response)))

    def failing(self, error: ApiError) -> bytes:
        """Return the end of a stream that failed.

        Clients look for `response.failed`, but SDKs only raise an exception for `error`.
        """
        failure = {"code": _code(error), "message": error.message}
        response = self.frame.response("failed", self.items.items, error=failure)
        failed = self._opening() + self._status_done() + self._of("response.failed", response)
        named = {"code": error.code, "message": error.message, "param": error.param}
        return failed + self._event({"type": "error", **named, **error.body})

    # ------------------------------------------------------------ events

    def _one(self, chunk: str) -> bytes:
        if (known := self.known.read(chunk)) is not None:
            kind, said = known
            if (place := self.items.goes_on(kind, said)) is not None:
                return self._delta(kind, place, said)
        events = _taken(self.items, json.loads(chunk)["choices"][0])
        self.known.learn(chunk)
        return b"".join([self._event(event) for event in events])

    def _delta(self, kind: str, place: Object, said: str) -> bytes:
        """Build the event for text without escapes. Only the text and the sequence number vary."""
        known, before, after = self._around
        if known != place:
            event = delta_event(kind, place, PROBE, [])
            before, after = sse.named(event["type"], {**event, "sequence_number": 0}).split(
                PROBE.encode()
            )
            after = after.removesuffix(b"0}\n\n")
            self._around = (place, before, after)
        self.number += 1
        return b"%b%b%b%d}\n\n" % (before, said.encode(), after, self.number - 1)

    def _opening(self) -> bytes:
        if self.number:
            return b""
        return self._lifecycle("response.created") + self._lifecycle("response.in_progress")

    def _lifecycle(self, kind: str, **more: Any) -> bytes:
        return self._of(kind, self.frame.response("in_progress", []), **more)

    def _status_done(self) -> bytes:
        if not self._status_open:
            return b""
        self._status_open = False
        return self._status("", done=True)

    def _status(self, text: str, *, done: bool) -> bytes:
        data = {"description": text, "done": done, "hidden": done}
        return self._lifecycle("response.in_progress", event={"type": "status", "data": data})

    def _of(self, kind: str, response: Object, **more: Any) -> bytes:
        return self._event({"type": kind, "response": response, **more})

    def _event(self, event: Object) -> bytes:
        numbered = {**event, "sequence_number": self.number}
        self.number += 1
        return sse.named(event["type"], numbered)


def _taken(items: OutputItems, choice: Mapping[str, Any]) -> list[Object]:
    return items.take(choice["delta"], likely_in(choice))


def _only_text(chunk: str) -> str | None:
    """Return the kind of text in a chunk, or None if it contains anything else to show."""
    choice = json.loads(chunk)["choices"][0]
    if likely_in(choice):
        return None
    events = _taken(OutputItems(0), choice)
    if len(events) != len(_FIRST) or events[-1].get("delta") != PROBE:
        return None
    return str(events[-1]["type"]).removeprefix("response.").removesuffix(".delta")


def _code(error: ApiError) -> str:
    """Return an error code defined in OpenAI's specification of responses."""
    if error.status is HTTPStatus.TOO_MANY_REQUESTS:
        return "rate_limit_exceeded"
    return "invalid_prompt" if error.status is HTTPStatus.BAD_REQUEST else "server_error"
