"""The benchmark of metrics counts what it says, for a few jobs."""

import json

import pytest

from benchmarks import metrics


def test_each_job_is_counted_and_each_waiting_one_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its figures would be those of a bot that counts nothing."""
    monkeypatch.setattr(metrics, "WARM_UP", 5)
    few = ["--waiting", "20", "--models", "3", "--calls", "10", "--callers", "2", "--scrapes", "2"]
    metrics.main(["--json", *few])
    figures = json.loads(capsys.readouterr().out)
    assert figures["counted_calls_per_job"] > 4
    assert 0 < figures["counting_share"] < 1
    assert figures["shown_jobs"] == figures["waiting"] == 20
    assert figures["loop_ms"] > 0
