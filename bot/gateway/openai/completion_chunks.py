"""Answers of completions in OpenAI's format: streamed in chunks, and whole."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from bot.gateway import sse
from bot.gateway.errors import ApiError
from bot.gateway.openai.alike_chunks import Around, around_text, pass_on
from bot.gateway.openai.chunks import NO_USAGE, Object, PlaceForm, answer_of
from bot.gateway.openai.response_parts import objects_in
from bot.gateway.runs import Run
from bot.gateway.waiting import line_of, place_of
from queueing.core.alike import KnownForm
from queueing.core.requests import Output

_BESIDE = ("timings", "system_fingerprint")


@dataclass(frozen=True, kw_only=True, slots=True)
class CompletionHeading:
    """The fields that all chunks of one completion share; `echoed` is the repeated prompt."""

    id: str
    model: str
    created: int
    echoed: str = ""

    def chunk(self, choices: Sequence[Object], **more: Any) -> Object:
        """Return a chunk with this heading."""
        heading = {"id": self.id, "object": "text_completion", "created": self.created}
        return {**heading, "model": self.model, "choices": list(choices), **more}

    def whole(self, output: Output) -> Object:
        """Return the answer to a call that does not stream."""
        answer = answer_of(output)
        more = {name: answer[name] for name in _BESIDE if name in answer}
        return self.chunk(
            [_whole(answer, self.echoed)], **more, usage=answer.get("usage") or NO_USAGE
        )


@dataclass(kw_only=True, slots=True)
class CompletionStream:
    """Writes the events of a streamed completion; implements `bot.gateway.answering.Writer`."""

    heading: CompletionHeading
    usage: bool = False
    form: PlaceForm = PlaceForm.COMMENT
    sent: int = 0
    known: KnownForm[Around] = field(init=False)

    def __post_init__(self) -> None:
        """Prepare to recognise chunks that differ in their text alone."""
        self.known = KnownForm(self._around)

    @property
    def begun(self) -> bool:
        """Whether a chunk of the answer has been sent."""
        return self.sent > 0

    def news(self, run: Run) -> bytes:
        """Return a server's new chunks with this answer's heading, preceded by the prompt."""
        fresh = run.chunks_after(self.sent)
        if not fresh:
            return b""
        first = b"" if self.begun else self._echo()
        self.sent += len(fresh)
        return first + b"".join([self._one(chunk) for chunk in fresh])

    def _one(self, chunk: str) -> bytes:
        return pass_on(chunk, self.known, self._renamed)

    def _around(self, chunk: str) -> Around | None:
        return around_text(self._renamed(chunk))

    def _renamed(self, chunk: str) -> bytes:
        choice = json.loads(chunk)["choices"][0]
        return self._event([_choice(choice["delta"].get("content") or "", choice)])

    def place(self, run: Run) -> bytes:
        """Return the place in line in the form this client shows."""
        match self.form:
            case PlaceForm.DATA:
                return self._event([], usher=place_of(run))
            case PlaceForm.OPEN_WEBUI:
                data = {"description": line_of(run), "done": False}
                return self._event([], event={"type": "status", "data": data})
        return sse.comment(place_of(run))

    def keeping(self) -> bytes:
        """Return an empty chunk."""
        return self._event([])

    def closing(self, output: Output) -> bytes:
        """Return the end of the stream, with the whole answer if none of it has been sent."""
        answer = answer_of(output)
        events = [] if self.begun else [self._event([_whole(answer, self.heading.echoed)])]
        if self.usage:
            events.append(self._event([], usage=answer.get("usage") or NO_USAGE))
        return b"".join((*events, sse.DONE))

    def failing(self, error: ApiError) -> bytes:
        """Return the error in place of the end, for which SDKs raise an exception."""
        return sse.data(error.body)

    def _echo(self) -> bytes:
        text = self.heading.echoed
        return self._event([_choice(text, {})]) if text else b""

    def _event(self, choices: Sequence[Object], **more: Any) -> bytes:
        return sse.data(self.heading.chunk(choices, **more))


def _whole(answer: Mapping[str, Any], echoed: str) -> Object:
    text = echoed + (answer["message"].get("content") or "")
    return _choice(text, {**answer, "finish_reason": answer.get("finish_reason") or "stop"})


def _choice(text: str, choice: Mapping[str, Any]) -> Object:
    return {
        "text": text,
        "index": 0,
        "logprobs": legacy(choice.get("logprobs")),
        "finish_reason": choice.get("finish_reason"),
    }


def legacy(told: Any) -> Object | None:
    """Return log probabilities as lists side by side; llama.cpp sends those of chat completions."""
    if isinstance(told, Mapping) and "tokens" in told:
        return dict(told)
    tokens = objects_in(told.get("content") if isinstance(told, Mapping) else told)
    if not tokens:
        return None
    texts = [str(each.get("token", "")) for each in tokens]
    return {
        "tokens": texts,
        "token_logprobs": [each.get("logprob", 0.0) for each in tokens],
        "top_logprobs": [_others(each) for each in tokens],
        "text_offset": [0, *accumulate(map(len, texts[:-1]))],
    }


def _others(token: Mapping[str, Any]) -> dict[str, float]:
    return {
        str(each.get("token", "")): each.get("logprob", 0.0)
        for each in objects_in(token.get("top_logprobs"))
    }
