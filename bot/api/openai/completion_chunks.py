"""Answers of completions in OpenAI's format: streamed in chunks, and whole."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from bot.api.calls import sse
from bot.api.openai.chat_stream import NO_USAGE, ChunkStream, Object, answer_of
from bot.api.openai.response_parts import objects_in
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


@dataclass(kw_only=True)
class CompletionStream(ChunkStream):
    """Writes the events of a streamed completion."""

    heading: CompletionHeading

    def closing(self, output: Output) -> bytes:
        """Return the end of the stream, with the whole answer if none of it has been sent."""
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
