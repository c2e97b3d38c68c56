"""The benchmark of the gap between two jobs runs, on the fake it brings along."""

import json

import pytest

from benchmarks import gap


def test_the_gap_is_measured_beside_a_plain_loop(capsys: pytest.CaptureFixture[str]) -> None:
    """No one could check how busy a server is kept."""
    gap.main(["--json", "--jobs", "6"])
    figures = json.loads(capsys.readouterr().out)
    assert figures["jobs"] == 6
    assert 0 < figures["gap_ms_p50"] <= figures["gap_ms_p99"]
    assert figures["plain_gap_ms_p50"] > 0
    assert figures["own_gap_ms_p50"] > 0
    assert figures["flush_ms_p50"] > 0
