"""A community uses the bot for days of virtual time; nothing is lost and nothing grows."""

import os
from pathlib import Path

import pytest

from tests.simulation.loop import run
from tests.simulation.soak import Report, Soak

DAYS = int(os.environ.get("USHER_SOAK_DAYS", "1"))  # 30 in a nightly run: benchmarks/soak.py

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="memory and handles are read from /proc"
)


@needs_proc
@pytest.mark.timeout(120 + 60 * DAYS)
def test_days_of_use_lose_and_leak_nothing(tmp_path: Path) -> None:
    """Somebody's request would be lost in weeks of outages and restarts, or tasks pile up."""
    seed = int(os.environ.get("USHER_SEED", "1"))  # one day is short: others may hold no restart
    print(f"seed {seed}")

    async def soak() -> Report:
        return await Soak(tmp_path, days=DAYS, seed=seed).run()

    report = run(soak())
    print(report.as_json())
    assert report.faults == []
    assert report.lost == 0
    assert report.jobs > 500 * DAYS
    assert report.restarts + report.kills >= 1
    assert (report.tasks_leaked, report.handles_leaked) == (0, 0)
