"""The benchmark of the gap between two jobs runs, on the fake it brings along."""

import json
from pathlib import Path

import pytest

from benchmarks import gap


def test_the_gap_is_measured_beside_a_plain_loop(capsys: pytest.CaptureFixture[str]) -> None:
    """No one could check how busy a server is kept."""
    gap.main(["--json", "--jobs", "6"])
    figures = json.loads(capsys.readouterr().out)
    assert figures["jobs"] == 6
    assert 0 < figures["gap_ms_p50"] <= figures["gap_ms_p99"]
    assert figures["plain_gap_ms_p50"] > 0
    assert figures["bare_gap_ms_p50"] > 0
    assert figures["own_gap_ms_p50"] > 0
    assert figures["flush_ms_p50"] >= 0  # a disk in memory has nothing to flush


GRAPH = {
    "1": {"class_type": "NoSuchNode", "inputs": {"text": "{{prompt}}", "seed": "{{seed}}"}},
    "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "a"}},
}


@pytest.mark.parametrize(
    ("graph", "why"),
    [({}, "not a workflow"), (GRAPH, "refused when it was loaded")],
    ids=["no workflow", "a node that the server lacks"],
)
def test_a_workflow_that_cannot_be_run_is_refused_at_once(
    graph: dict[str, object], why: str, tmp_path: Path
) -> None:
    """It would stand still for ten minutes and say nothing."""
    workflow = tmp_path / "mine.json"
    workflow.write_text(json.dumps(graph))
    with pytest.raises(SystemExit, match=f"gap: .*{why}"):
        gap.main(["--jobs", "2", "--workflow", str(workflow)])
