"""How long the queue waits for a silent server."""

import asyncio
from unittest.mock import patch

import pytest

from queueing.core.ports import Fetch, Report
from queueing.core.requests import Progress
from queueing.core.specs import Timeouts
from queueing.engine.attempt_sender import NeverBegan, watched
from tests.simulation.loop import in_virtual_time, run

PATIENCE = Timeouts(first_s=10.0, idle_s=2.0, total_s=100.0)


def given_up_at(*signs: tuple[float, Progress]) -> float:
    """Return when an attempt is abandoned that reports this progress, each after a pause."""

    async def call(report: Report) -> Fetch:
        for pause_s, progress in signs:
            await asyncio.sleep(pause_s)
            report(progress)
        never: asyncio.Future[Fetch] = asyncio.get_running_loop().create_future()
        return await never

    async def scenario() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(NeverBegan):
            await watched(call, PATIENCE, lambda _: None)
        return loop.time() - began

    return run(scenario())


def test_a_server_that_never_begins_is_told_from_one_that_falls_silent() -> None:
    """A server whose worker hangs would get one job after the other."""
    assert given_up_at() == pytest.approx(10.0)


def test_others_that_come_first_are_no_beginning_but_a_sign_of_life() -> None:
    """A job behind others at its server would be abandoned, or never be."""
    behind = [(8.0, Progress(ahead=ahead)) for ahead in (3, 2, 1)]
    assert given_up_at(*behind) == pytest.approx(34.0)


@in_virtual_time
async def test_a_server_that_falls_silent_is_given_up_after_its_last_sign() -> None:
    """A stream would be cut while it comes, or a dead one be awaited for too long."""

    async def call(report: Report) -> Fetch:
        for _ in range(100):
            await asyncio.sleep(0.1)
            report(Progress(text="cat"))
        never: asyncio.Future[Fetch] = asyncio.get_running_loop().create_future()
        return await never

    loop = asyncio.get_running_loop()
    for timeouts, ends in ((PATIENCE, 12.0), (Timeouts(idle_s=50.0, total_s=20.0), 20.0)):
        began = loop.time()
        with pytest.raises(TimeoutError, match="100 signs of progress"):
            await watched(call, timeouts, lambda _: None)
        assert loop.time() - began == pytest.approx(ends)


@in_virtual_time
async def test_signs_by_the_hundred_cost_no_timer_each() -> None:
    """Timers would be a tenth of the cost of a token."""

    async def call(report: Report) -> Fetch:
        for _ in range(500):
            report(Progress(text="cat"))
            await asyncio.sleep(0)
        raise KeyError

    loop = asyncio.get_running_loop()
    with patch.object(loop, "call_at", wraps=loop.call_at) as timers:
        with pytest.raises(KeyError):
            await watched(call, PATIENCE, lambda _: None)
        assert timers.call_count < 5
