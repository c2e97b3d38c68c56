"""How long a silent server is waited for."""

import asyncio

import pytest

from queueing.core.catalog import Timeouts
from queueing.core.ports import Fetch, Report
from queueing.core.requests import Progress
from queueing.engine.attempt_timeouts import NeverBegan, watched
from tests.simulation.loop import run

PATIENCE = Timeouts(first_s=10.0, idle_s=2.0, total_s=100.0)


def given_up_at(*signs: tuple[float, Progress]) -> float:
    """Return when an attempt is given up that shows these signs, each after a pause, and no more."""

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
    """A server whose worker is stuck would get one job after the other."""
    assert given_up_at() == pytest.approx(10.0)


def test_others_that_come_first_are_no_beginning_but_a_sign_of_life() -> None:
    """A job behind others at its server would be given up, or never be."""
    behind = [(8.0, Progress(ahead=ahead)) for ahead in (3, 2, 1)]
    assert given_up_at(*behind) == pytest.approx(34.0)
