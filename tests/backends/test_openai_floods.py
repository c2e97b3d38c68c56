"""A server that floods one answer takes no time from the others."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest

from backends.openai import answer, loop_share
from backends.openai.flavour import Generic
from backends.openai.gathered import PassedOnReader
from backends.openai.loop_share import TURN_S, LoopShare
from tests.simulation.loop import run

EMPTY = {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": ""}}]}}]}
FLOODS = ("", ": comment", "event: ping", "data:", "data: " + json.dumps(EMPTY), "data: {}")
LINES = 300


async def lines_of(line: str) -> AsyncIterator[Sequence[str]]:
    yield [line] * LINES
    yield ["", "data: " + json.dumps({"choices": [{"delta": {"content": "x"}}]}), ""]


@pytest.mark.parametrize("line", FLOODS)
async def test_others_have_their_turn_during_a_flood(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other people's answers would stand still until the flood is over."""
    monkeypatch.setattr(loop_share, "TURN_S", 0.0)  # each line is a turn
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
    await answer._follow(lines_of(line), reader, Generic(), question, said.append)
    other.cancel()
    assert turns >= LINES
    assert reader.text == "x"
    assert len(said) == 1  # what says nothing is not reported


def test_an_answer_has_at_most_half_of_the_time() -> None:
    """A flood would keep a core busy, and everybody on it."""

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
