"""Chunks of any form from a server: understood, or the server's fault, and never a bug."""

import copy
import json
import random
from typing import Any

import pytest

from backends.common.http_replies import ErrorInAnswer
from backends.openai.chat.completion import PassedOnReader
from bot.api.openai.chat_stream import ChatStream, Heading
from bot.api.openai.completions import CompletionHeading, CompletionStream
from bot.api.openai.response_output import OutputItems
from bot.api.openai.response_request import Responses
from bot.api.openai.response_stream import ResponseFrame, ResponseStream
from bot.api.runs.runs import Run
from queueing.core.errors import UnreadableAnswer
from queueing.core.jobs import stand_in
from queueing.core.requests import Output

LIKELY = {"token": "a", "logprob": -1.0, "bytes": [97], "top_logprobs": [{"token": "b"}]}
CALL = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
DELTA = {"content": "Hi", "reasoning_content": "Hm", "refusal": "No", "tool_calls": [CALL, CALL]}
CHOICE = {"index": 0, "delta": DELTA, "logprobs": {"content": [LIKELY]}, "finish_reason": None}
TEXT = {"index": 0, "text": "Hi", "logprobs": {"tokens": ["a"]}, "finish_reason": "stop"}
USAGE = {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1}}
CHUNK = {"model": "alpha", "choices": [CHOICE, TEXT], "usage": USAGE, "timings": {"a": 1}}
ODD: tuple[Any, ...] = (None, 0, -1, 1.5, True, "", "x", [], [None], ["x"], [[]], {}, {"a": None})


def spoilt(chance: random.Random, value: Any) -> Any:
    """Return a copy in which one value, at any depth, is another one."""
    value = copy.deepcopy(value)
    at = value
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = chance.choice(keys)
        if isinstance(at[key], dict | list) and at[key] and chance.random() < 0.8:
            at = at[key]
            continue
        at[key] = chance.choice(ODD)
        return value


@pytest.mark.parametrize("seed", range(60))
def test_a_chunk_of_any_shape_is_no_bug(seed: int) -> None:
    """One broken server would look like a fault of Usher, or break off the caller's stream."""
    chance = random.Random(seed)
    for _ in range(20):
        reader, run = PassedOnReader(), Run(stand_in(1, "llama", 0.0))
        asked = Responses.model_validate({"model": "llama", "input": "Hi"})
        frame = ResponseFrame(number=1, created=1, asked=asked)
        heading = CompletionHeading(id="cmpl-1", model="llama", created=1)
        chat = Heading(id="chatcmpl-1", model="llama", created=1)
        writers = (
            ResponseStream(frame=frame, items=OutputItems(1)),
            CompletionStream(heading=heading, usage=True),
            ChatStream(heading=chat, usage=True),
        )
        try:
            for _ in range(3):
                reader.feed("data: " + json.dumps(spoilt(chance, CHUNK)))
                reader.feed("")
            reader.close()
        except (UnreadableAnswer, ErrorInAnswer):
            pass
        run.chunks += reader.take_chunks()
        output = Output(text=reader.text, answer=reader.answer())
        for writer in writers:
            assert writer.news(run) is not None
            assert writer.closing(output)
        for whole in (frame.whole, heading.whole, chat.whole):
            assert whole(output)
