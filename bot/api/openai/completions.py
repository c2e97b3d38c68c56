"""`POST /v1/completions`: the request, the body sent to a server, and the answer. Pure.

Editors use it to complete code and to fill gaps. `suffix` is the text after the gap.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Self

from pydantic import Field, JsonValue, field_validator, model_validator

from bot.api.calls import sse
from bot.api.openai.chat import TEXT_LIMIT, TOKENS_LIMIT, Streamed
from bot.api.openai.chat_stream import NO_USAGE, ChunkStream, Object, answer_of
from bot.api.openai.records import NAME_LIMIT
from bot.api.openai.response_output import objects_in
from queueing.core.requests import Output

PROMPT_TOKENS_LIMIT = 2_000_000


class Completions(Streamed):
    """A completion request.

    With `usher_progress`, the stream reports the place in the queue in separate data lines.
    """

    values_most = 400_000  # a prompt may consist of tokens

    model: str = Field(min_length=1, max_length=NAME_LIMIT)
    prompt: str | tuple[int, ...]
    suffix: str | None = Field(default=None, max_length=TEXT_LIMIT)
    max_tokens: int | None = Field(default=None, ge=0, le=TOKENS_LIMIT)
    echo: bool | None = None
    logprobs: int | None = Field(default=None, ge=0, le=20)
    n: int | None = None
    best_of: int | None = None

    @field_validator("prompt", mode="before")
    @classmethod
    def _one_prompt(cls, value: Any) -> Any:
        """Accept a list with one prompt."""
        if not isinstance(value, list) or not value or isinstance(value[0], int):
            return value
        if len(value) > 1:
            raise ValueError("must be one prompt: a job produces one answer")
        return value[0]

    @field_validator("prompt")
    @classmethod
    def _bounded(cls, value: Any) -> Any:
        if isinstance(value, str) and len(value) > TEXT_LIMIT:
            raise ValueError(f"must not be longer than {TEXT_LIMIT} characters")
        if isinstance(value, tuple) and not 0 < len(value) <= PROMPT_TOKENS_LIMIT:
            raise ValueError(f"must contain 1 to {PROMPT_TOKENS_LIMIT} tokens")
        return value

    @model_validator(mode="after")
    def _one_answer(self) -> Self:
        if self.n not in {None, 1} or self.best_of not in {None, 0, 1}:
            raise ValueError("n and best_of must be 1: a job produces one answer")
        if self.suffix and not isinstance(self.prompt, str):
            raise ValueError("suffix requires a prompt that is a string")
        return self

    @property
    def echoed(self) -> str:
        """The prompt to repeat before the model's text, or ""."""
        return self.prompt if self._is_echoed_here and isinstance(self.prompt, str) else ""

    @property
    def _is_echoed_here(self) -> bool:
        """Whether Usher repeats the prompt itself.

        Few servers do so, except together with log probabilities.
        """
        return bool(self.echo) and self.logprobs is None and isinstance(self.prompt, str)

    @property
    def question(self) -> str:
        """The prompt, to show in lists of jobs."""
        return self.prompt if isinstance(self.prompt, str) else f"{len(self.prompt)} tokens"

    def body(self) -> dict[str, JsonValue]:
        """Return the body to send to a server, without the model."""
        fields = self.model_dump(
            mode="json", include={"prompt", "max_tokens", "logprobs"}, exclude_none=True
        )
        if self.suffix:
            fields["suffix"] = self.suffix
        if self.echo and not self._is_echoed_here:
            fields["echo"] = True
        return self.passed_on() | fields


_BESIDE = ("timings", "system_fingerprint")


@dataclass(frozen=True, kw_only=True, slots=True)
class CompletionHeading:
    """Fields shared by all chunks of a completion. `echoed` is the prompt to repeat."""

    id: str
    model: str
    created: int
    echoed: str = ""

    def chunk(self, choices: Sequence[Object], **more: Any) -> Object:
        """Build a chunk with these fields."""
        heading = {"id": self.id, "object": "text_completion", "created": self.created}
        return {**heading, "model": self.model, "choices": list(choices), **more}

    def whole(self, output: Output) -> Object:
        """Return the answer to a call that does not stream."""
        answer = answer_of(output)
        more = {name: answer[name] for name in _BESIDE if name in answer}
        return self.chunk(
            [_whole(answer, self.echoed)], **more, usage=answer.get("usage") or NO_USAGE
        )


@dataclass(kw_only=True)
class CompletionStream(ChunkStream):
    """Writes the events of a streamed completion."""

    heading: CompletionHeading

    def closing(self, output: Output) -> bytes:
        """Return the end of the stream, including the whole answer if none of it was sent."""
        answer = answer_of(output)
        events = [] if self.begun else [self._event([_whole(answer, self.heading.echoed)])]
        if self.usage:
            events.append(self._event([], usage=answer.get("usage") or NO_USAGE))
        return b"".join((*events, sse.DONE))

    def _renamed(self, chunk: str) -> bytes:
        choice = json.loads(chunk)["choices"][0]
        return self._event([_choice(choice["delta"].get("content") or "", choice)])

    def _opening(self) -> bytes:
        text = self.heading.echoed
        return self._event([_choice(text, {})]) if text else b""


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
    """Return log probabilities as parallel lists. llama.cpp sends the chat completions format."""
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
