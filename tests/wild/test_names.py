"""Names of files and choices in templates, and what servers list.

Each file of `names/` has a name as it is `written` in a template and what a server has `offered`.
It has the name to be `sent`, or part of what is `shown` to the operator.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from backends.comfyui.workflow.offered_nodes import as_offered
from backends.comfyui.workflow.reading import parse_workflow
from backends.comfyui.workflow.template import Template, prepare
from queueing.core.errors import BadModel
from tests.backends.comfyui.drawing import connect, ignore, work
from tests.backends.comfyui.workflow.graphs import check_offered
from tests.contracts.backend.harness_comfyui import model
from tests.fakes.servers.comfyui import FakeComfyUI
from tests.fakes.servers.comfyui_nodes import NODES
from tests.samples import in_turn
from tests.wild.cases import cases, read_case

CASES = cases("names")
SHAPES: dict[str, Any] = {
    "list": lambda offered: [offered, {}],
    "combo": lambda offered: ["COMBO", {"options": offered}],
    "dynamic": lambda offered: [
        "COMFY_DYNAMICCOMBO_V3",
        {"options": [{"key": o} for o in offered]},
    ],
}


def template(name: str) -> Template:
    inputs = {"name": name, "text": "{{prompt}}", "filename_prefix": ""}
    graph = json.dumps({"1": {"class_type": "SaveImage", "inputs": inputs}})
    return prepare(parse_workflow(graph, name="own.json"), {}, name="own.json")


@pytest.mark.parametrize("shape", SHAPES)
@in_turn("case", CASES)
def test_the_offered_name_is_sent_or_the_nearest_are_shown(case: Path, shape: str) -> None:
    """A shared workflow would only run on servers with its author's operating system."""
    odd = read_case(case)
    kind = SHAPES[shape](odd["offered"])
    info: dict[str, Any] = {"SaveImage": {"input": {"required": {"name": kind}}}}
    for written in (odd["written"], f"{{{{name:{odd['written']}}}}}"):
        workflow = template(written)
        if "sent" in odd:
            check_offered(workflow, "1", info)
            sent = as_offered(workflow.nodes["1"].inputs, info["SaveImage"])
            assert sent["name"] == odd["sent"]
        else:
            with pytest.raises(BadModel) as refused:
                check_offered(workflow, "1", info)
            assert odd["shown"] in str(refused.value)


@pytest.mark.parametrize("listed", ["sd/micro.safetensors", "SD\\micro.safetensors"])
async def test_servers_of_both_kinds_draw_one_model(
    monkeypatch: pytest.MonkeyPatch, listed: str
) -> None:
    """All requests would wait for one of two servers, or its model would count as unloaded."""
    monkeypatch.setitem(NODES, "CheckpointLoaderSimple", {"ckpt_name": [[listed]]})
    spec = model("sd/micro.safetensors")
    async with FakeComfyUI() as fake:
        comfy = connect(fake)
        try:
            await comfy.verify(spec)
            await comfy.load(spec)
            assert await comfy.loaded([spec]) == frozenset({spec.name})
            await (await comfy.run(spec, work(), ignore))()
            assert await comfy.loaded([spec]) == frozenset({spec.name})
        finally:
            await comfy.aclose()
    assert len(fake.posts) == 2
    for post in fake.posts:
        assert post["prompt"]["checkpoint"]["inputs"]["ckpt_name"] == listed
