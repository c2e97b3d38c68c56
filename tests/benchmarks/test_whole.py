"""The benchmark of the whole bot, for a few jobs: every call is answered and delivered."""

import asyncio
import json
import time
from pathlib import Path

import pytest

from benchmarks.whole import profile
from benchmarks.whole.__main__ import main
from benchmarks.whole.profile import LONG_S, LongSteps

ROOT = Path(__file__).resolve().parents[2]
KEYS = {
    "ack_ms_p50",
    "ack_ms_p95",
    "callers",
    "cpu_ms_per_job",
    "first_ms_p50",
    "first_ms_p95",
    "jobs",
    "jobs_per_s",
    "requests_per_job",
    "rss_mb",
    "waiting",
}


@pytest.mark.parametrize("kind", ["image", pytest.param("ask", marks=pytest.mark.thorough)])
def test_each_call_is_accepted_and_its_result_shown(
    capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """Its figures would be those of refusals, or of results that no one saw."""
    main(["--alone", "--callers", "5", "--waiting", "20", "--calls", "20", "--kind", kind])
    figures = json.loads(capsys.readouterr().out)
    assert figures.keys() == KEYS
    assert (figures["jobs"], figures["waiting"]) == (20, 20)
    assert 2 <= figures["requests_per_job"] <= 6, "a first message, steps on the way, the result"
    assert 0 < figures["ack_ms_p50"] <= figures["ack_ms_p95"]
    assert figures["cpu_ms_per_job"] > 0
    assert figures["rss_mb"] > 0


@pytest.mark.thorough
def test_the_profile_shows_each_part_next_to_a_bare_loop(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["--profile", "--callers", "5", "--waiting", "0", "--calls", "60"])
    lines = capsys.readouterr().out.splitlines()
    parts = [line for line in lines if "%" in line]
    ends = [line for line in lines if line.startswith(("a job in the whole bot", "a bare loop"))]
    whole_ms, bare_ms = (float(line.split()[-1]) for line in ends)
    assert any(line.startswith("garbage collection") for line in lines)
    assert 0 < bare_ms < whole_ms
    assert sum(float(line.split()[-1]) for line in parts) == pytest.approx(whole_ms, abs=0.02), (
        "all of it is shown"
    )


async def test_a_step_that_lets_all_else_wait_is_named() -> None:
    """It could not be found out what keeps a call from being acknowledged."""

    async def long() -> None:
        until = time.thread_time() + 2 * LONG_S
        while time.thread_time() < until:
            pass

    with LongSteps() as steps:
        await asyncio.create_task(long())
    assert any("1 of" in line and long.__qualname__ in line for line in steps.lines(1))


def test_each_part_of_the_profile_is_where_it_says() -> None:
    """A part that moved to another file would silently be counted with another part."""
    modules = [*ROOT.glob("bot/**/*.py"), *ROOT.glob("queueing/**/*.py")]
    for _, end, *functions in profile.PARTS:
        found = [path for path in modules if path.as_posix().endswith(end)]
        assert len(found) == 1, end
        for function in functions:
            assert f"def {function}(" in found[0].read_text(), (end, function)
