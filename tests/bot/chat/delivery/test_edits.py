"""The benchmark of the editor, for two minutes: what it promises holds in every run."""

import json

import pytest

from benchmarks import edits


def test_nobody_is_refused_and_the_head_of_every_line_is_fresh(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A change of pacing would earn penalties, or show people places long gone."""
    edits.main(["--json", "--minutes", "2", "--seed", "7"])
    figures = json.loads(capsys.readouterr().out)
    assert figures["answers_429"] == 0
    assert figures["stale_s_max_first10_private"] <= 5
    assert figures["final_s_p50"] < 3
    assert figures["jobs_ended"] >= 59
    assert figures["edits_sent"] < 0.25 * figures["edits_naive"]
