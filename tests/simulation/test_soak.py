"""A community uses the bot in virtual time; nothing is lost and nothing grows."""

import asyncio
import os
from collections.abc import Sized
from pathlib import Path

import pytest

from bot.core.content import Content
from bot.core.platform import MessageRef
from tests.simulation.loop import in_virtual_time
from tests.simulation.soak import JOBS_A_DAY, Soak, SoakChat, chat_of

DAYS = float(os.environ.get("USHER_SOAK_DAYS", "0.25"))  # 30 in a nightly run: benchmarks.soak
JOBS = max(JOBS_A_DAY, 500 / DAYS)  # a day; in a short soak people are in a hurry

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="memory and handles are read from /proc"
)


@needs_proc
@pytest.mark.thorough
@pytest.mark.timeout(int(600 + 60 * DAYS))
@in_virtual_time
async def test_days_of_use_lose_and_leak_nothing(tmp_path: Path) -> None:
    """A person's request would be lost in weeks of outages and restarts, or tasks pile up."""
    seed = int(os.environ.get("USHER_SEED", "1"))  # hours are short: others may hold no restart
    print(f"seed {seed}")
    report = await Soak(tmp_path, days=DAYS, seed=seed, jobs_a_day=JOBS).run()
    print(report.as_json())
    assert report.faults == []
    assert report.lost == 0
    assert report.jobs > 0.75 * JOBS * DAYS
    assert report.restarts + report.kills >= 1
    assert (report.tasks_leaked, report.handles_leaked) == (0, 0)


@in_virtual_time
async def test_the_chat_of_a_soak_keeps_no_history() -> None:
    """The measured memory would be that of the test itself, as it once was."""
    chat = SoakChat()
    for request in range(3000):
        place = chat_of(request)
        asked = MessageRef(platform="fake", chat=place, message=f"r{request}")
        ref = await chat.send(place, Content(body=("in queue",)), reply_to=asked)
        for text in ("1 in line", "painting", "❌ It failed."):
            await chat.edit(ref, Content(body=(text,)))
        if request % 100 == 0:
            chat.forget()
            await asyncio.sleep(3600.0)
    kept = vars(chat)
    sizes = {name: len(value) for name, value in kept.items() if isinstance(value, Sized)}
    assert max(sizes.values()) <= 1000, sizes
