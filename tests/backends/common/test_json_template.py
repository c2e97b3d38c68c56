"""Chunks that differ only in their text: read and written as if each had been parsed."""

import json
import secrets
from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from backends.common.json_template import PROBE, TRIES, JsonTemplate
from backends.openai.chat.completion import PassedOnReader
from bot.api.openai.chat_stream import ChatStream, Heading
from bot.api.runs.runs import Run
from tests.queueing.planning.worlds import jobs
from tests.samples import examples

texts = st.text(max_size=6) | st.sampled_from(['"', "\\", "\n", "é😀", "\u2028", "\x7f", PROBE])
deltas = st.one_of(
    st.fixed_dictionaries({"content": texts}),
    st.fixed_dictionaries({"role": st.just("assistant"), "content": texts}),
    st.fixed_dictionaries({"reasoning_content": texts, "content": st.none()}),
    st.fixed_dictionaries({"reasoning_content": texts, "content": texts}),
    st.fixed_dictionaries(
        {
            "tool_calls": st.lists(
                st.fixed_dictionaries({"function": st.just({"arguments": '{"content":"x"}'})})
            )
        }
    ),
    st.just({}),
)
more = st.fixed_dictionaries(
    {},
    optional={
        "finish_reason": st.sampled_from([None, "stop"]),
        "logprobs": st.just({"content": [{"token": "a", "logprob": -1}]}),
    },
)
choices = st.builds(lambda delta, rest: {"index": 0, "delta": delta, **rest}, deltas, more)
prompts = st.builds(lambda text: {"index": 0, "text": text, "finish_reason": None}, texts)
bodies = st.fixed_dictionaries(
    {"choices": st.lists(choices | prompts, max_size=2)},
    optional={
        "model": st.sampled_from(["a", "b"]),
        "usage": st.just({"total_tokens": 3}),
        "id": texts,
    },
)
streams = st.lists(st.tuples(bodies, st.booleans(), st.booleans()), max_size=12)

repeated = st.builds(  # as servers do: the same chunk with other words
    lambda one, count: [one] * count,
    st.tuples(bodies, st.booleans(), st.booleans()),
    st.integers(1, 4),
)


def written(stream: list[tuple[Mapping[str, Any], bool, bool]]) -> list[str]:
    """Return the chunks as servers write them: with or without spaces and escapes."""
    return [
        json.dumps(body, ensure_ascii=escaped, separators=(",", ":") if tight else None)
        for body, escaped, tight in stream
    ]


def read(stream: list[str]) -> tuple[Any, ...]:
    """Return everything a reader makes of a stream."""
    reader = PassedOnReader()
    with patch.object(secrets, "token_hex", lambda size: "5" * size):
        signs = [reader.feed(f"data: {chunk}") or reader.feed("") for chunk in stream]
        reader.close()
    state = (reader.text, reader.finished, reader.model, reader.thinks, reader.silent, reader.ended)
    return signs, state, reader.take_chunks(), reader.answer()


def sent(stream: list[str]) -> list[bytes]:
    """Return what a client gets for each chunk in OpenAI's form."""
    run, writer = Run(*jobs("m", 0.0)), ChatStream(heading=Heading(id="x", model="m", created=1))
    events = []
    for chunk in read(stream)[2]:
        run.chunks.append(chunk)
        events.append(writer.news(run))
    return events


@examples(100, quick=25)
@given(streams | repeated)
def test_a_reader_learns_the_same_from_chunks_it_does_not_parse(stream: list[Any]) -> None:
    """A word would be missing from an answer, or a reason for its end."""
    lines = written(stream)
    found = read(lines)
    with patch.object(JsonTemplate, "read", lambda *_: None):
        assert found == read(lines)


@given(streams | repeated)
def test_a_client_gets_the_same_of_chunks_that_are_not_parsed(stream: list[Any]) -> None:
    """A client would get another word, or broken JSON."""
    lines = written(stream)
    found = sent(lines)
    with patch.object(JsonTemplate, "read", lambda *_: None):
        assert found == sent(lines)


def test_an_ordinary_stream_is_parsed_once() -> None:
    """Each token would be parsed twice, and parsing is most of its cost."""
    stream = [
        {"id": "x", "choices": [{"index": 0, "delta": {"content": f"w{n}"}}]} for n in range(50)
    ]
    lines = written([(body, False, True) for body in stream])
    with patch.object(json, "loads", wraps=json.loads) as loads:
        assert b"w49" in sent(lines)[-1]
        assert read(lines)[1][0].endswith("w49")
    assert loads.call_count < 10


def test_streams_without_alike_chunks_are_examined_a_few_times_only() -> None:
    """Checking each chunk of such a stream would cost more than just parsing it."""
    examined: list[str] = []

    def examine(text: str) -> str:
        examined.append(text)
        return "kept"

    known = JsonTemplate[str](examine)
    for n in range(100):
        text = f'{{"created":{n},"content":"a"}}'
        assert known.read(text) is None
        known.learn(text)
    assert len(examined) == TRIES
