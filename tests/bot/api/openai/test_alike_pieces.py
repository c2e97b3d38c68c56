"""Pieces that differ only in their words are passed on unparsed; nothing else changes."""

import json
import random
from typing import Any

import pytest

from backends.common.json_template import JsonTemplate
from bot.api.openai.completions import CompletionHeading, CompletionStream
from bot.api.openai.response_output import OutputItems
from bot.api.openai.response_request import Responses
from bot.api.openai.response_stream import ResponseFrame, ResponseStream
from bot.api.runs.runs import Run
from queueing.core.jobs import stand_in
from queueing.core.requests import Output
from tests.bot.api.scripted import call, in_form, piece, text_piece

WORDS = ("a", " cat", "\n", "", " ", '"', "\\", "é", "🐈", "usher probe 5f1c", "}", "</think>")
BOTH = call(0, id="a", name="f")
BOTH["choices"][0]["delta"]["content"] = "and"
LIKELY = piece(content="likely")
LIKELY["choices"][0]["logprobs"] = {"content": [{"token": "likely", "logprob": -1}]}


def chat_chunk(chance: random.Random) -> dict[str, Any]:
    """Return what a server may send next, mostly more of the same."""
    word = chance.choice(WORDS)
    name = chance.choices(("content", "reasoning_content", "reasoning", "refusal"), (9, 3, 1, 1))[0]
    others: tuple[dict[str, Any], ...] = (
        call(0, arguments=word), call(1, id="b", name="g", arguments=word), BOTH, LIKELY, piece(),
        piece("stop"), piece(content=word, reasoning_content=word), {"choices": []},
        piece(role="assistant", content=word),
    )  # fmt: skip
    return chance.choice(others) if chance.random() < 0.2 else piece(**{name: word})


def responses(form: JsonTemplate[str] | None) -> ResponseStream:
    asked = Responses.model_validate({"model": "llama", "input": "Hi"})
    frame = ResponseFrame(number=1, created=1, asked=asked)
    stream = ResponseStream(frame=frame, items=OutputItems(1))
    if form is not None:
        stream.known = form
    return stream


def never(_text: str) -> None:
    """Recognise no form, so that every chunk is parsed."""


def test_responses_are_the_same(subtests: pytest.Subtests) -> None:
    """A word would be lost, or appear in another item."""
    for seed in range(40):
        with subtests.test(seed=seed):
            chance = random.Random(seed)
            quick, slow = responses(None), responses(JsonTemplate(never))
            run = Run(stand_in(1, "llama", 0.0))
            for chunk in in_form(chat_chunk(chance) for _ in range(chance.randint(1, 60))):
                run.chunks.append(chunk)
                assert quick.news(run) == slow.news(run)
            answer = Output(answer=json.dumps({"message": {}, "finish_reason": "stop"}))
            assert _timeless(quick.closing(answer)) == _timeless(slow.closing(answer))


def test_completions_are_the_same(subtests: pytest.Subtests) -> None:
    """A word would be lost or misplaced, as above."""
    for seed in range(20):
        with subtests.test(seed=seed):
            chance = random.Random(seed)
            heading = CompletionHeading(id="cmpl-1", model="llama", created=1)
            quick, slow = CompletionStream(heading=heading), CompletionStream(heading=heading)
            slow.known = JsonTemplate(never)
            run = Run(stand_in(1, "llama", 0.0))
            likely = text_piece("a", logprobs={"tokens": ["a"]})
            words = [text_piece(chance.choice(WORDS)) for _ in range(60)]
            for chunk in in_form(likely if chance.random() < 0.1 else word for word in words):
                run.chunks.append(chunk)
                assert quick.news(run) == slow.news(run)


def _timeless(sent: bytes) -> list[Any]:
    events = [
        json.loads(each.partition("data: ")[2]) for each in sent.decode().split("\n\n") if each
    ]
    events[-1]["response"].pop("completed_at")
    return events
