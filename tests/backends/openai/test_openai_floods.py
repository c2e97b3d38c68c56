"""A server that floods one answer does not delay the others."""

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count, cycle, islice, repeat
from typing import Any, cast

import pytest

from backends.openai.chat import answer_events, answer_reader, completion
from backends.openai.chat.answer_reader import AnswerReader
from backends.openai.chat.completion import TURN_S, LoopShare, PassedOnReader
from backends.openai.flavours.flavour import Flavour
from queueing.core.errors import UnreadableAnswer
from tests.simulation.loop import run

EMPTY = {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": ""}}]}}]}
FLOODS = (
    "",
    ": comment",
    "event: ping",
    "id: 1",
    "retry: 1",
    "data:",
    "data: x",
    "data: {}",
    "data: " + json.dumps(EMPTY),
)
LINES = 300


async def queues_of(line: str) -> AsyncIterator[Sequence[str]]:
    yield [line] * LINES
    yield ["", "data: " + json.dumps({"choices": [{"delta": {"content": "x"}}]}), ""]


@pytest.mark.parametrize("line", FLOODS)
async def test_others_have_their_turn_during_a_flood(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other people's answers would be blocked until the flood is over."""
    monkeypatch.setattr(completion, "TURN_S", 0.0)  # each line is a turn
    turns = 0

    async def neighbour() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(neighbour())
    said: list[Any] = []
    question = cast("Any", None)
    reader = PassedOnReader()
    await completion._follow(queues_of(line), reader, Flavour(), question, said.append)
    other.cancel()
    assert turns >= LINES
    assert reader.text == "x"
    assert len(said) == 1  # what says nothing is not reported


def test_an_answer_has_at_most_half_of_the_time() -> None:
    """A flood would keep a processor core busy, and with it everybody's answers."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        spent = 0.0

        def clock() -> float:
            return loop.time() + spent

        def feed(_line: str) -> bool:
            nonlocal spent
            spent += TURN_S / 4
            return False

        share, lines = LoopShare(clock), iter(["x"] * 40)
        assert share.fill(feed, lines) == (False, False)
        assert spent == pytest.approx(TURN_S)
        over = False
        while not over:
            await share.pause()
            _, over = share.fill(feed, lines)
        assert loop.time() >= spent - TURN_S
        began = loop.time()
        await asyncio.sleep(1.0)  # it waited for its server
        assert share.fill(feed, iter(["x"] * 3)) == (False, True)
        await share.pause()
        assert loop.time() == began + 1.0

    run(scenario())


def _events(**delta: Any) -> Iterator[str]:
    """Return endless events that differ only in a number, which replaces `#` in their texts."""
    event = json.dumps({"choices": [{"delta": delta}]})
    return (f"data: {event.replace('#', f'{number:09}')}" for number in count())


LONG = "x" * 500
ENDLESS: dict[str, Callable[[], Iterator[str]]] = {
    "empty lines": lambda: repeat(""),
    "comments": lambda: (f": {LONG}{number}" for number in count()),
    "names": lambda: (f"event: {LONG}{number}" for number in count()),
    "ids": lambda: (f"id: {LONG}{number}" for number in count()),
    "times": lambda: (f"retry: {LONG}{number}" for number in count()),
    "data without an end": lambda: (f"data: {LONG}{number}" for number in count()),
    "empty data without an end": lambda: repeat("data:"),
    "no events": lambda: (f"{LONG}{number}" for number in count()),
    "pings": lambda: cycle(["event: ping", f"data: {LONG}", ""]),
    "events that say nothing": _events,
    "models": lambda: (f'data: {{"model": "{LONG}{number}"}}' for number in count()),
    "texts": lambda: _events(content=f"#{LONG}"),
    "letters": lambda: _events(content="x"),
    "halves of characters": lambda: _events(content="\ud83d"),
    "refusals": lambda: _events(refusal=f"#{LONG}"),
    "refused letters": lambda: _events(refusal="x"),
    "thoughts": lambda: _events(reasoning=f"#{LONG}"),
    "thought letters": lambda: _events(reasoning="x"),
    "annotations": lambda: _events(annotations=[{"url": f"#{LONG}"}]),
    "images": lambda: _events(images=[{"image_url": {"url": f"#{LONG}"}}]),
    "unknown parts": lambda: _events(content=[{"type": f"#{LONG}"}]),
    "calls": lambda: _events(tool_calls=[{"id": f"#{LONG}", "function": {"name": "f"}}]),
    "letters of calls": lambda: _events(tool_calls=[{"function": {"arguments": "x"}}]),
    "ids of one call": lambda: _events(tool_calls=[{"index": 0, "id": f"#{LONG}"}]),
    "odd places of calls": lambda: _events(
        tool_calls=[{"index": [f"#{LONG}"], "function": {"name": "f", "arguments": "\ud83d"}}]
    ),
    "usage": lambda: (f'data: {{"usage": {{"x{n}": "{LONG}"}}, "choices": []}}' for n in count()),
    "probabilities": lambda: (
        f'data: {{"choices": [{{"delta": {{}}, "logprobs": {{"content": [{{"token": "{n}{LONG}"}}]}}}}]}}'
        for n in count()
    ),
}
"""Lines that a server may send without end."""
ANSWER_MOST, KEPT_MOST, EVENT_MOST = 2_000, 20_000, 4_000
GROWN = 300_000  # bytes, far more than all limits together
PARTS = {"texts", "letters", "refusals", "refused letters", "thoughts", "thought letters", "calls",
         "letters of calls", "probabilities", "halves of characters"}  # fmt: skip


@pytest.mark.parametrize("kind", [AnswerReader, PassedOnReader])
@pytest.mark.parametrize("name", ENDLESS)
def test_what_never_ends_is_not_kept(
    kind: type[AnswerReader], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory would fill up; each part that is kept ends as a text does."""
    monkeypatch.setattr(answer_reader, "ANSWER_LIMIT", ANSWER_MOST)
    monkeypatch.setattr(answer_reader, "KEPT_LIMIT", KEPT_MOST)
    monkeypatch.setattr(answer_reader, "LIKELY_LIMIT", KEPT_MOST)
    for module in (answer_events, answer_reader):
        monkeypatch.setattr(module, "EVENT_LIMIT", EVENT_MOST)
    reader, lines = kind(), islice(ENDLESS[name](), 2_500)
    tracemalloc.start()
    try:
        with suppress(UnreadableAnswer):
            for line in lines:
                reader.feed(line)
                if line.startswith("data: {"):
                    reader.feed("")
        reader.take_chunks()
        assert tracemalloc.get_traced_memory()[0] < GROWN
    finally:
        tracemalloc.stop()
    if name in PARTS:
        reader.close()
        assert reader.ended
        assert reader.finished == "length"
