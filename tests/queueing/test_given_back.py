"""The benchmark of cards that are given back counts what it says."""

from math import inf
from pathlib import Path

import pytest

from benchmarks.given_back import compare_quiet, idle_run, missed
from benchmarks.trace import Trace, TraceBackend, TraceHost, TraceJob, TraceModel


def trace(*arrivals_s: float) -> Trace:
    return Trace(
        hosts=(TraceHost(name="h", vram_mb=10_000, backends=(TraceBackend(name="b"),)),),
        models=(TraceModel(name="m", vram_mb=4000, load_s=30.0, service_s=10.0, backends=("b",)),),
        jobs=tuple(TraceJob(at=at, model="m", service_s=10.0) for at in arrivals_s),
    )


@pytest.mark.parametrize(
    ("after_s", "loads", "left", "again"), [(inf, 1, 0, 0), (60.0, 3, 2, 1), (900.0, 1, 0, 0)]
)
def test_copies_that_left_and_were_missed_are_counted(
    after_s: float, loads: int, left: int, again: int
) -> None:
    """It stays for twice the minute and is missed at 170 s; at 900 s it has long been gone again."""
    run = idle_run(trace(0.0, 170.0, 900.0), after_s)
    outcome = run.played()
    assert (len(outcome.loads), len(run.left)) == (loads, left)
    assert missed(run, outcome) == again


def test_promises_over_quiet_hours_are_counted_by_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The quiet minute is from 60 to 120 s: one comes in it, and one before cannot be done in time."""
    file = tmp_path / "small.json"
    file.write_text(trace(0.0, 50.0, 70.0, 180.0).model_dump_json())
    assert compare_quiet([file])
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("small"))
    assert row.split() == ["small", "1/1", "1/1", "1/1", "2/2", "0", "0"]
