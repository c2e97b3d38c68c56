"""Workflows whose seed no request changes.

Each file of `seeds/` has a `workflow` and the seeds that `usher check` has `noted`, by node.
"""

import json
from pathlib import Path

from backends.comfyui.model_templates import remarks_on
from backends.comfyui.workflow.reading import parse_workflow
from backends.comfyui.workflow.template import prepare
from tests.backends.comfyui.workflow.described import SHIPPED
from tests.backends.comfyui.workflow.shipped import shipped
from tests.samples import in_turn
from tests.wild.cases import cases, read_case

CASES = cases("seeds")


@in_turn("case", CASES)
def test_a_seed_that_no_request_changes_is_noted(case: Path) -> None:
    """The operator would hear of "the same picture every time" from the members."""
    odd = read_case(case)
    graph = parse_workflow(json.dumps(odd["workflow"]), name="own.json")
    held = ", ".join(f"node {key} has {seed}" for key, seed in odd["noted"].items())
    told = "own.json: no {{seed}}, so the same prompt gives the same result every time (%s)."
    assert list(remarks_on(prepare(graph, {}, name="own.json"))) == ([told % held] if held else [])


@in_turn("path", SHIPPED)
def test_shipped_workflows_need_no_note(path: Path) -> None:
    """`usher check` would warn of Usher's own files."""
    assert list(remarks_on(shipped(path))) == []
