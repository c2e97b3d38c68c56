"""Workflow files with other programs' placeholders, wrappings and comments.

Each file of `placeholders/` has a workflow `file`, as an object or as text. It has the placeholders
that Usher `reads` in it, or what it `says` to the operator.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from backends.comfyui.workflow.reading import parse_workflow
from backends.comfyui.workflow.template import Template, prepare
from queueing.core.errors import BadModel
from tests.samples import in_turn
from tests.wild.cases import cases, read_case

CASES = cases("placeholders")


def template(file: Any) -> Template:
    text = file if isinstance(file, str) else json.dumps(file)
    return prepare(parse_workflow(text, name="own.json"), {}, name="own.json")


@in_turn("case", CASES)
def test_a_file_of_another_program_is_read_or_explained(case: Path) -> None:
    """An operator would read that a prompt is missing although they see one."""
    odd = read_case(case)
    if "reads" in odd:
        assert sorted(template(odd["file"]).placeholders) == odd["reads"]
        return
    with pytest.raises(BadModel) as refused:
        template(odd["file"])
    assert odd["says"] in str(refused.value)
