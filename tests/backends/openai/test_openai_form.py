"""Servers' own formats become OpenAI's form: whole, streamed and as a response."""

import json
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest

from backends.openai.chat.answer_reader import ANSWER_LIMIT, KEPT_LIMIT, AnswerReader
from backends.openai.chat.completion import CompletionCall, PassedOnReader, stream_answer
from backends.openai.chat.tool_calls import CALLS_MOST
from backends.openai.flavours.flavour import Flavour
from backends.openai.flavours.llamacpp import LlamaCppPython
from bot.api.openai.chat_stream import ChatStream, Heading
from bot.api.openai.completions import CompletionHeading, CompletionStream, legacy
from bot.api.openai.response_output import OutputItems
from bot.api.openai.response_request import Responses
from bot.api.openai.response_stream import ResponseFrame, ResponseStream
from bot.api.runs.answers import _in_json
from bot.api.runs.runs import Run
from queueing.core.errors import UnreadableAnswer
from queueing.core.jobs import stand_in
from queueing.core.requests import Output
from queueing.core.specs import Timeouts
from tests.bot.api.whole_api import strictly


def piece(reason: Any = None, **delta: Any) -> str:
    return "data: " + json.dumps({"choices": [{"delta": delta, "finish_reason": reason}]})


def call(name: str | None = None, arguments: Any = None, **more: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {
        "function": {key: value for key, value in function.items() if value is not None},
        **more,
    }


DONE = "data: [DONE]"
CAT = [piece(content="A "), piece(content="cat."), piece("stop"), DONE]
X = '{"x": 1}'


def feed(reader: AnswerReader, lines: Sequence[str]) -> None:
    """Feed events, adding the empty line that ends each unless it continues."""
    for at, line in enumerate(lines):
        reader.feed(line)
        after = lines[at + 1] if at + 1 < len(lines) else ""
        if line.startswith("data: {") and line.endswith("}") and after.startswith("data: {"):
            reader.feed("")
    reader.close()


def answered(lines: Sequence[str]) -> tuple[tuple[str, ...], Output]:
    reader = PassedOnReader()
    feed(reader, lines)
    return reader.take_chunks(), Output(text=reader.text, answer=reader.answer())


def in_all_forms(lines: Sequence[str]) -> Iterator[str]:
    """Return the JSON of an answer in every form that the API has."""
    chunks, output = answered(lines)
    run = Run(stand_in(1, "m", 0.0))
    run.chunks += chunks
    heading = Heading(id="chatcmpl-1", model="m", created=1)
    prompted = CompletionHeading(id="cmpl-1", model="m", created=1)
    asked = Responses.model_validate({"model": "m", "input": "Hi"})
    frame = ResponseFrame(number=1, created=1, asked=asked)
    for whole in (heading.whole, prompted.whole, frame.whole):
        yield _in_json(whole(output)).decode()
    yield from chunks
    yield output.answer
    for writer in (
        ChatStream(heading=heading, usage=True),
        CompletionStream(heading=prompted, usage=True),
        ResponseStream(frame=frame, items=OutputItems(1)),
    ):
        events = (writer.news(run) + writer.closing(output)).decode()
        for line in events.splitlines():
            if line.startswith("data: {"):
                yield line.removeprefix("data: ")


ODD_NUMBERS = ("-Infinity", "NaN", "1e999", "-1e999", '"-inf"', "null")


@pytest.mark.parametrize("number", ODD_NUMBERS)
@pytest.mark.parametrize("completion", [False, True])
def test_numbers_that_json_does_not_have_reach_no_program(number: str, *, completion: bool) -> None:
    """Every reader but Python's would refuse the whole answer."""
    token = '{"token": "A", "logprob": #, "top_logprobs": [{"token": "A", "logprob": #}]}'
    likely, said = f'{{"content": [{token}]}}', '"delta": {"content": "A"}'
    if completion:
        likely = '{"tokens": ["A"], "token_logprobs": [#], "top_logprobs": [{"A": #}]}'
        said = '"text": "A"'
    forms = [
        f'{{"choices": [{{{said}, "logprobs": {likely}}}], "timings": {{"x": #}}}}',
        '{"choices": [{"delta": {"tool_calls": [{"function": {"name": "f", "arguments": {"x": #}}}]}}]}',
        '{"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": {"total_tokens": #}}',
    ]
    events = [form.replace("#", number) for form in forms]
    lines = [line for event in events for line in (f"data: {event}", "")]
    sent = [*in_all_forms(lines)]
    read = [strictly(each) for each in sent]
    assert len(read) >= len(events)
    assert "9999" in "".join(sent) or (completion and number in {"NaN", "null", "1e999"})


def test_no_depth_of_an_answer_is_a_bug() -> None:
    """An answer may be too deep to write though it can be read: the attempt would crash."""
    for depth in range(900, 1010):
        deep = "[" * depth + "]" * depth
        event = f'data: {{"choices": [{{"text": "x"}}], "timings": {{"x": {deep}}}}}'
        with suppress(UnreadableAnswer):
            answered([event, DONE])


def test_many_log_probabilities_are_written_in_the_time_their_number_allows() -> None:
    """The bot would be blocked for minutes."""
    told = {"content": [{"token": "x", "logprob": -1.0}] * 100_000}
    began = time.process_time()
    made = legacy(told)
    assert made is not None
    assert made["text_offset"][-1] == 99_999
    assert time.process_time() - began < 3.0


def test_parts_that_cannot_be_read_are_named() -> None:
    """An empty answer would count as a success, and nobody would learn why it is empty."""
    reader = PassedOnReader()
    feed(reader, [piece("stop", content=[{"type": "audio", "data": ""}])])
    assert reader.form.unknown == {"audio"}
    assert not reader.said


@pytest.mark.parametrize("kind", [AnswerReader, PassedOnReader])
@pytest.mark.parametrize(
    "delta",
    [
        {"content": "x" * 1000},
        {"reasoning": "x" * 1000},
        {"reasoning_content": [{"type": "text", "text": "x" * 1000}]},
        {"refusal": "x" * 1000},
        {"content": [{"type": "thinking", "thinking": "x" * 1000}]},
        {"tool_calls": [call("f", "x" * 1000, index=0)]},
        {"tool_calls": [call(arguments="x" * 1000, index=0)]},
        {"tool_calls": [call("f" * 1000, index=0)]},
        {"tool_calls": [call("f", "", index=0, id="x" * 1000)]},
        {"function_call": {"name": "f", "arguments": "x" * 1000}},
    ],
)
def test_everything_a_server_says_has_a_limit(
    kind: type[AnswerReader], delta: dict[str, Any]
) -> None:
    """Endless thoughts or calls would fill the memory."""
    reader = kind()
    lines = 0
    while not reader.ended:
        reader.feed(piece(**delta))
        reader.feed("")
        lines += 1
        assert lines <= ANSWER_LIMIT // 1000 + 1
    assert reader.finished == "length"


def test_calls_without_end_and_probabilities_without_end_have_a_limit() -> None:
    """Many small calls or probabilities would fill the memory."""
    reader = PassedOnReader()
    for number in range(CALLS_MOST + 5):
        reader.feed(piece(tool_calls=[call("f", X, index=number)]))
        reader.feed("")
    assert reader.ended
    likely = [{"token": "x" * 100, "logprob": -1}] * 5000
    choice = {"delta": {"content": "x"}, "logprobs": {"content": likely}}
    reader = PassedOnReader()
    for _ in range(20):
        reader.feed("data: " + json.dumps({"choices": [choice]}))
        reader.feed("")
    assert reader.ended
    reader, chunk = PassedOnReader(), {"choices": [{"delta": {"content": "x"}}]}
    timed = "data: " + json.dumps({**chunk, "timings": {"x": "y" * 900_000}})
    for _ in range(KEPT_LIMIT // 900_000 + 2):
        reader.feed(timed)
        reader.feed("")
    assert reader.ended
    with pytest.raises(UnreadableAnswer):
        feed(PassedOnReader(), ["data: " + "[" * 2_000_000, "", "data: {", ""])


class Sent:
    """A server's answer, in place of the connection."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = [each for line in lines for each in (line, "")]

    @asynccontextmanager
    async def stream_lines(self, *_: Any, **__: Any) -> AsyncIterator[AsyncIterator[list[str]]]:
        async def arriving() -> AsyncIterator[list[str]]:
            for line in self.lines:
                yield [line]

        yield arriving()


async def asked(
    lines: Sequence[str], flavour: Flavour, *, passed_on: bool
) -> tuple[Output, list[str]]:
    """Return what becomes of an answer, and the chunks that were reported."""
    question = CompletionCall(
        body={},
        path="/v1/chat/completions",
        model_id="m",
        timeouts=Timeouts(),
        look_up=cast("Any", None),
        passed_on=passed_on,
    )
    chunks: list[str] = []
    http = cast("Any", Sent(lines))
    output = await stream_answer(
        http, flavour, question, lambda progress: chunks.extend(progress.chunks)
    )
    return output, chunks


@pytest.mark.parametrize("passed_on", [False, True])
async def test_what_was_passed_over_is_logged_once(
    caplog: pytest.LogCaptureFixture, *, passed_on: bool
) -> None:
    """An operator would not learn that a server sends unreadable parts."""
    lines = [CAT[0], "data: {oops", CAT[1], "data: {again", *CAT[2:]]
    output, chunks = await asked(lines, Flavour(), passed_on=passed_on)
    assert output.text == "A cat."
    assert [each.getMessage() for each in caplog.records] == [
        "m: skipped an unreadable part of an answer: the server sent an unreadable answer: '{oops'"
    ]
    if passed_on:  # the reason for the end is reported as well, last and once
        assert ['"finish_reason"' in each for each in chunks] == [False, False, True]


async def test_a_large_answer_is_written_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log probabilities of one answer would block everyone else's for a second."""
    main, write = threading.main_thread(), PassedOnReader.answer
    beside: list[bool] = []

    def noted(reader: PassedOnReader) -> str:
        beside.append(threading.current_thread() is not main)
        return write(reader)

    monkeypatch.setattr(PassedOnReader, "answer", noted)
    for said in ("A cat.", "A cat." * 50_000):
        output, _ = await asked([piece("stop", content=said), DONE], Flavour(), passed_on=True)
        assert output.text == said
    assert beside == [False, True]


@pytest.mark.parametrize("passed_on", [False, True])
async def test_only_a_server_known_for_it_breaks_answers_off_without_a_word(
    *, passed_on: bool
) -> None:
    """Half an answer would be delivered, or a whole one thrown away."""
    lines = [*CAT[:2], DONE]
    assert (await asked(lines, Flavour(), passed_on=passed_on))[0].text == "A cat."
    strange = [piece("stop", content=[{"type": "audio", "data": ""}])]
    for flavour, sent in ((LlamaCppPython(), lines), (Flavour(), CAT[:2]), (Flavour(), strange)):
        with pytest.raises(UnreadableAnswer):
            await asked(sent, flavour, passed_on=passed_on)
