"""Moments people read are as sure as they are said to be."""

import asyncio
import time
from dataclasses import replace

import pytest

from bot.chat.api.content import Moment
from bot.chat.texts import plain
from bot.chat.texts.status import waiting
from queueing.core.standings import Standing
from tests.simulation.installation import NO_LIMITS, Installation, host, image_model
from tests.simulation.loop import run


async def a_standing() -> Standing:
    """Return where a job stands behind another one."""
    gpu = Installation.of([image_model("flux")], [host("gpu", "comfy")])
    async with gpu.queue() as queue:
        await queue.submitter.submit(gpu.new("flux", "first"), limits=NO_LIMITS)
        job = await queue.submitter.submit(gpu.new("flux", "second"), limits=NO_LIMITS)
        await asyncio.sleep(1)
        return (await queue.status.standings([job]))[job.id]


def test_a_moment_says_how_sure_it_is() -> None:
    """A guess would be shown as if it were a timetable."""
    cases: list[tuple[float | None, str]] = [
        (None, ""),
        (3.0, ""),
        (12.0, " ± 20 s"),
        (60.0, " ± 1 min"),
        (61.0, " ± 2 min"),
        (250.0, " ± 5 min"),
        (1e5, " ± 60 min"),
    ]
    for spread_s, words in cases:
        standing = replace(run(a_standing()), done_spread_s=spread_s, reason=None)
        assert plain(waiting(standing, "en")).endswith(words), spread_s
        assert ("±" in plain(waiting(standing, "en"))) == bool(words), spread_s


def test_a_place_that_others_with_precedence_push_back_says_why() -> None:
    """A place would get worse, and nothing would tell the reason."""
    standing = replace(run(a_standing()), reason=None)
    assert "lane" not in plain(waiting(standing, "en"))
    pushed = replace(standing, position=4, overtaken=2)
    assert plain(waiting(pushed, "en")).endswith("\n2 requests from other lanes are ahead of yours")
    pushed = replace(standing, position=3, overtaken=1)
    assert plain(waiting(pushed, "en")).endswith("\n1 request from another lane is ahead of yours")


def test_a_transcript_shows_the_machines_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person at a terminal would read the time of another country."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        body = ("ready ", Moment(1_700_000_000.0, spread_s=60, before="at "))
        assert plain(body, local=True) == "ready at 03:43 ± 1 min"
        assert plain(body) == "ready at 22:13 UTC ± 1 min"
    finally:
        monkeypatch.undo()
        time.tzset()
