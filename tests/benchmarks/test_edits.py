"""Two minutes of the editor's benchmark: its promises hold in every run."""

import json

import pytest

from benchmarks.edits.__main__ import main

KEYS = {
    "answers_429",
    "cpu_s",
    "edits_naive",
    "edits_of_places",
    "edits_sent",
    "edits_share",
    "final_s_max",
    "final_s_p50",
    "first_answer_s_max",
    "first_answer_s_p50",
    "jobs_ended",
    "seed",
    "stale_s_max_first10_group",
    "stale_s_max_first10_private",
    "stale_s_max_further_back",
    "stale_s_p50_further_back",
}


def test_nobody_is_refused_and_the_head_of_every_queue_is_fresh(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A change of pacing would cause penalties, or show outdated places."""
    main(["--json", "--minutes", "2", "--seed", "7"])
    figures = json.loads(capsys.readouterr().out)
    assert figures.keys() == KEYS
    assert figures["answers_429"] == 0
    assert figures["stale_s_max_first10_private"] <= 5
    assert figures["final_s_p50"] < 3
    assert figures["jobs_ended"] >= 59
    assert figures["edits_sent"] < 0.25 * figures["edits_naive"]
