"""The benchmark of the whole bot, for a few jobs: every call is answered and delivered."""

import json

import pytest

from benchmarks import whole


@pytest.mark.parametrize("kind", ["image", "ask"])
def test_each_call_is_accepted_and_its_result_shown(
    capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """Its figures would be those of refusals, or of results that no one saw."""
    whole.main(["--alone", "--callers", "5", "--waiting", "20", "--calls", "20", "--kind", kind])
    figures = json.loads(capsys.readouterr().out)
    assert figures["jobs"] == 20
    assert figures["waiting"] == 20
    assert 2 <= figures["requests_per_job"] <= 6, "a first message, steps on the way, the result"
    assert 0 < figures["ack_ms_p50"] <= figures["ack_ms_p95"]
    assert figures["cpu_ms_per_job"] > 0
    assert figures["rss_mb"] > 0
