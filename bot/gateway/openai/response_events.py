"""Answers of `POST /v1/responses`: whole, and as a stream of typed events.

A stream begins at once and says nothing new until the job runs. Every event has a number, and the
last one holds the whole response, as OpenAI's SDKs expect.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from bot.gateway import sse
from bot.gateway.errors import ApiError
from bot.gateway.openai.chunks import NO_USAGE, PlaceForm, answer_of
from bot.gateway.openai.response_output import Object, OutputItems
from bot.gateway.openai.response_request import Responses, ResponseToolChoice
from bot.gateway.runs import Run
from bot.gateway.waiting import line_of, place_of
from queueing.core.requests import Output

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ResponseFrame:
    """A response without its output: what was asked for; `number` is the job's."""

    number: int
    created: int
    asked: Responses

    def response(self, status: str, output: list[Object], **more: Any) -> Object:
        """Return the response in that state."""
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
        """Return the response once its answer is complete, or as long as it may be."""
        usage = _usage(answer.get("usage") or NO_USAGE)
        if (reason := _INCOMPLETE.get(answer.get("finish_reason") or "")) is not None:
            details = {"reason": reason}
            return self.response("incomplete", output, incomplete_details=details, usage=usage)
        return self.response("completed", output, completed_at=int(time.time()), usage=usage)

    def whole(self, output: Output) -> Object:
        """Return the answer to a call that does not stream."""
        answer, items = answer_of(output), OutputItems(self.number)
        _add(items, answer)
        return self.finished(items.items, answer)


@dataclass(kw_only=True, slots=True)
class ResponseStream:
    """Writes the events of a streamed response; implements `bot.gateway.answering.Writer`."""

    frame: ResponseFrame
    items: OutputItems
    form: PlaceForm = PlaceForm.COMMENT
    sent: int = 0
    number: int = 0
    _status_open: bool = field(default=False, init=False)

    @property
    def begun(self) -> bool:
        """Whether a piece of the answer has been taken."""
        return self.sent > 0

    def news(self, run: Run) -> bytes:
        """Return the events for a server's new chunks."""
        fresh = run.chunks[self.sent :]
        if not fresh:
            return b""
        events = [self._opening(), self._status_done()]
        self.sent += len(fresh)
        for chunk in fresh:
            for choice in json.loads(chunk).get("choices") or ():
                events += [self._event(event) for event in _taken(self.items, choice)]
        return b"".join(events)

    def place(self, run: Run) -> bytes:
        """Return the place in line in the form this client shows."""
        opening = self._opening()
        if self.begun or self.form is PlaceForm.COMMENT:
            return opening + sse.comment(place_of(run))
        if self.form is PlaceForm.DATA:
            return opening + self._lifecycle("response.in_progress", usher=place_of(run))
        self._status_open = True
        return opening + self._status(line_of(run), done=False)

    def keeping(self) -> bytes:
        """Return an event that says nothing new: LangChain gives up 120 s after the last one."""
        return self._opening() + self._lifecycle("response.in_progress")

    def closing(self, output: Output) -> bytes:
        """Return the end of the stream, with the whole answer if none of it has been sent."""
        answer, items = answer_of(output), self.items
        events = [self._opening(), self._status_done()]
        made = _add(items, answer) if not self.begun else items.close(complete=_complete(answer))
        events += [self._event(event) for event in made]
        response = self.frame.finished(items.items, answer)
        return b"".join((*events, self._of(f"response.{response['status']}", response)))

    def failing(self, error: ApiError) -> bytes:
        """Return the end of a stream that failed.

        `response.failed` is what clients look for; SDKs raise an exception for `error` alone.
        """
        failure = {"code": _code(error), "message": error.message}
        response = self.frame.response("failed", self.items.items, error=failure)
        failed = self._opening() + self._status_done() + self._of("response.failed", response)
        named = {"code": error.code, "message": error.message, "param": error.param}
        return failed + self._event({"type": "error", **named, **error.body})

    # ------------------------------------------------------------ events

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


def _add(items: OutputItems, answer: Mapping[str, Any]) -> list[Object]:
    """Add a whole answer and return the events for it."""
    events = items.take(answer["message"], answer.get("logprobs") or ())
    return events + items.close(complete=_complete(answer))


def _taken(items: OutputItems, choice: Mapping[str, Any]) -> list[Object]:
    probabilities = choice.get("logprobs") or {}
    said = choice.get("delta") or choice.get("message") or {}
    return items.take(said, probabilities.get("content") or ())


def _complete(answer: Mapping[str, Any]) -> bool:
    return answer.get("finish_reason") not in _INCOMPLETE


def _settings(asked: Responses) -> Object:
    """Return the fields that repeat what was asked for; None stands for the model's default."""
    settings: Object = {
        "instructions": asked.instructions,
        "max_output_tokens": asked.max_output_tokens,
        "temperature": asked.temperature,
        "top_p": asked.top_p,
        "top_logprobs": asked.top_logprobs or 0,
        "metadata": asked.metadata or {},
        "parallel_tool_calls": asked.parallel_tool_calls is not False,
        "tool_choice": _choice(asked),
        "tools": [tool.model_dump(mode="json") for tool in asked.tools or ()],
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
    """Return a server's token counts under the names of a response."""
    asked, answered = told.get("prompt_tokens") or 0, told.get("completion_tokens") or 0
    cached = (told.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    thought = (told.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    return {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": told.get("total_tokens") or asked + answered,
    }


def _code(error: ApiError) -> str:
    """Return a code that OpenAI's document knows for the error of a response."""
    if error.status is HTTPStatus.TOO_MANY_REQUESTS:
        return "rate_limit_exceeded"
    return "invalid_prompt" if error.status is HTTPStatus.BAD_REQUEST else "server_error"
