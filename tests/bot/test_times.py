"""Moments people read are as sure as they are said to be."""

import asyncio
from dataclasses import replace

import pytest

from bot.texts import plain
from bot.texts.status import waiting
from queueing.reports import Standing
from tests.simulation.house import NO_LIMITS, House, host, image_model
from tests.simulation.loop import run


async def a_standing() -> Standing:
    """Return where a job stands behind another one."""
    gpu = House.of([image_model("flux")], [host("gpu", "comfy")])
    async with gpu.queue() as queue:
        await queue.submit(gpu.new("flux", "first"), limits=NO_LIMITS)
        job = await queue.submit(gpu.new("flux", "second"), limits=NO_LIMITS)
        await asyncio.sleep(1)
        return (await queue.standings([job]))[job.id]


@pytest.mark.parametrize(
    ("spread_s", "words"),
    [
        (None, ""),
        (3.0, ""),
        (12.0, " ± 20 s"),
        (60.0, " ± 1 min"),
        (61.0, " ± 2 min"),
        (250.0, " ± 5 min"),
        (1e5, " ± 60 min"),
    ],
)
def test_a_moment_says_how_sure_it_is(spread_s: float | None, words: str) -> None:
    """If this fails a guess is shown as if it were a timetable."""
    standing = replace(run(a_standing()), done_spread_s=spread_s, reason=None)
    assert plain(waiting(standing, "en")).endswith(words)
    assert ("±" in plain(waiting(standing, "en"))) == bool(words)
