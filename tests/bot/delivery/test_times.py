"""Times that people read are as certain as their wording says."""

import asyncio
import time
from dataclasses import replace

import pytest

from bot.core.content import Moment
from bot.texts.catalogue import plain
from bot.texts.status import waiting
from queueing.core.status import Estimate, Standing
from tests.simulation.installation import NO_LIMITS, Installation, host, image_model
from tests.simulation.loop import run


async def a_standing() -> Standing:
    """Return the standing of a job behind another one."""
    gpu = Installation.of([image_model("flux")], [host("gpu", "comfy")])
    async with gpu.queue() as queue:
        await queue.submitter.submit(gpu.new("flux", "first"), limits=NO_LIMITS)
        job = await queue.submitter.submit(gpu.new("flux", "second"), limits=NO_LIMITS)
        await asyncio.sleep(1)
        return (await queue.status.standings([job]))[job.id]


def test_an_estimate_says_what_is_known_and_stays_true_until_it_has_passed() -> None:
    """A guess would look like a timetable, or a message become false as time passes."""
    at = 1_700_000_000.0  # 22:13:20 UTC
    cases: list[tuple[Estimate | None, str]] = [
        (None, "in line"),
        (Estimate(at=at, earliest=at, latest=at + 95), "ready about 22:13–22:15 UTC"),
        (
            Estimate(at=at, earliest=at, latest=at + 95, late=True),
            "taking longer than expected: now about 22:13–22:15 UTC",
        ),
        (
            Estimate(at=at, earliest=at, latest=at + 95, measured=False),
            "first run here, not measured yet: maybe ready 22:13–22:15 UTC",
        ),
        (
            Estimate(at=at, earliest=at, latest=at + 95, soon=True),
            "ready any moment, by 22:14 UTC at the latest",
        ),
    ]
    for ends, words in cases:
        standing = replace(run(a_standing()), ends=ends, reason=None)
        assert plain(waiting(standing, "en")).endswith(words), ends


def test_a_place_that_others_with_precedence_push_back_says_why() -> None:
    """A place would get worse, and nothing would explain why."""
    standing = replace(run(a_standing()), reason=None)
    assert "lane" not in plain(waiting(standing, "en"))
    pushed = replace(standing, position=4, overtaken=2)
    assert plain(waiting(pushed, "en")).endswith("\n2 requests from other lanes are ahead of yours")
    pushed = replace(standing, position=3, overtaken=1)
    assert plain(waiting(pushed, "en")).endswith("\n1 request from another lane is ahead of yours")


def test_a_transcript_shows_the_machines_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person at a terminal would read the time of another time zone."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        body = ("ready ", Moment(1_700_000_000.0, before="at "))
        assert plain(body, local=True) == "ready at 03:43"
        assert plain(body) == "ready at 22:13 UTC"
    finally:
        monkeypatch.undo()
        time.tzset()
