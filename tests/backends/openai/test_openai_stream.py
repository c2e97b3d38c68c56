"""Reading streamed answers: what servers were recorded to send, and what must not break them."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.common.http_replies import ErrorInAnswer
from backends.openai.chat.answer_reader import AnswerReader
from backends.openai.chat.reasoning import without_thoughts
from queueing.core.errors import UnreadableAnswer

RECORDED = Path(__file__).parents[1] / "recorded"


def recorded(server: str, name: str) -> list[str]:
    chunks: list[str] = json.loads((RECORDED / f"{server}.json").read_text())[name]["chunks"]
    return chunks


def read(*lines: str, interrupts: bool = False) -> AnswerReader:
    reader = AnswerReader(interrupts=interrupts)
    for line in lines:
        reader.feed(line)
        if line.startswith("data"):
            reader.feed("")
    reader.close()
    return reader


def event(**delta: object) -> str:
    return "data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]})


END = 'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}'


def test_recorded_streams_are_read_whole(subtests: pytest.Subtests) -> None:
    """An answer of a real server would be lost or mangled."""
    cases: list[tuple[str, str, str]] = [
        ("llama-server", " robot then over", "length"),
        ("llama-server-router", " line", "stop"),
        ("llama-cpp-python", " we painting", "length"),
    ]
    for server, text, finished in cases:
        with subtests.test(server=server, text=text):
            reader = read(*"".join(recorded(server, "stream")).split("\n"))
            assert reader.text.startswith(text.lstrip())
            assert reader.finished == finished
            assert reader.ended
            assert reader.model


def test_a_chunk_of_usage_without_choices_is_no_answer_and_no_fault() -> None:
    """Every answer from servers that add a usage chunk would fail."""
    reader = read(*"".join(recorded("llama-server", "stream_usage")).split("\n"))
    assert reader.finished == "length"
    assert reader.text.startswith("robot then over")


def test_done_without_a_reason_is_not_the_end_of_an_answer() -> None:
    """An answer that another request interrupted would be delivered as whole."""
    lines = "".join(recorded("llama-cpp-python", "parallel_0")).split("\n")
    reader = read(*lines, interrupts=True)
    assert reader.ended
    assert reader.finished is None


def test_an_error_inside_an_answer_is_never_taken_for_text(subtests: pytest.Subtests) -> None:
    """A person would get half an answer, or none, without being told of the error."""
    for line in [
        'data: {"error":{"message":"x"}}',
        'data:{"error":"x"}',
        'error: {"code":500,"message":"x"}',
        '{"error":"Unexpected endpoint or method. (POST /v1/chat/completions)"}',
    ]:
        with subtests.test(line=line), pytest.raises(ErrorInAnswer):
            read(line)


def test_garbage_is_a_fault_of_the_answer(subtests: pytest.Subtests) -> None:
    """An unreadable answer would crash the attempt as if it were a bug of the bot."""
    for line in ["data: {", "data: {nonsense", 'data: ["x"]', 'data: {"choices":7}', "<html>"]:
        with subtests.test(line=line), pytest.raises(UnreadableAnswer):
            read(event(content="hi"), line) if line.startswith("data") else read(line)


def test_comments_events_and_null_content_are_passed_over() -> None:
    """Pings and first chunks would end up in answers."""
    reader = AnswerReader()
    signs = [
        reader.feed(line)
        for line in (
            ": ping",
            "",
            "event: message",
            "id: 7",
            event(role="assistant", content=None),
            "",
            'data: {"choices":null}',
            "",
            "data:" + event(content="hi").removeprefix("data: "),
            "",
            END,
            "",
        )
    ]
    assert signs == [False] * 9 + [True, False, False]
    assert reader.text == "hi"


def test_a_whole_answer_in_several_lines_is_read_at_the_end() -> None:
    """A server that ignores `stream` would be regarded as broken."""
    body = {"model": "m", "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
    reader = read(*json.dumps(body, indent=2).split("\n"))
    assert (reader.text, reader.finished, reader.model) == ("hi", "stop", "m")


def test_an_endless_answer_is_stopped() -> None:
    """A model that repeats itself would fill the memory."""
    reader = AnswerReader()
    lines = 0
    while not reader.ended:
        reader.feed(event(content="again " * 1000))
        lines += 1
    assert lines < 100
    assert reader.finished == "length"


def test_reasoning_under_both_names_is_folded_away_and_a_sign_of_progress(
    subtests: pytest.Subtests,
) -> None:
    """A thinking model would seem to do nothing, or its thoughts would be shown."""
    for name in ["reasoning", "reasoning_content"]:
        with subtests.test(name=name):
            reader = AnswerReader()
            assert [reader.feed(event(**{name: "hm"})), reader.feed("")] == [False, True]
            assert reader.text == ""
            assert reader.thinks
            reader.feed(event(content="A cat."))
            reader.feed("")
            assert reader.text == "A cat."


@given(st.lists(st.text(min_size=1, max_size=8), max_size=30))
def test_the_text_so_far_never_shows_a_thought(pieces: list[str]) -> None:
    """A thought would flash up while its block is still open."""
    reader = AnswerReader()
    for piece in ["<thi", "nk>", *[piece.replace("<", "") for piece in pieces]]:
        reader.feed(event(content=piece))
        reader.feed("")
        assert reader.text == ""


@given(st.text(max_size=300))
def test_any_line_is_read_or_refused(line: str) -> None:
    """Bytes of a strange server could crash the attempt."""
    with suppress(UnreadableAnswer, ErrorInAnswer):
        read(line)


@given(st.lists(st.text(), max_size=20))
def test_the_pieces_of_an_answer_make_the_answer(pieces: list[str]) -> None:
    """Text would be lost between chunks."""
    whole = "".join(pieces)
    reader = read(*[event(content=piece) for piece in pieces], END)
    assert reader.text == without_thoughts(whole.replace("\0", "\ufffd"))
