"""LoRA loaders that name a LoRA in a list, in rows, or in a text.

Each file of `loaders/` has the `class_type` and `inputs` of a loader, and what is `asked`: for some
`loras`, the inputs of each loader in the chain (`loads`), without their links, or `refused`.
"""

import json
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from backends.comfyui.workflow.graph.nodes import Node
from backends.comfyui.workflow.loras import with_loras
from queueing.core.errors import Rejected
from queueing.core.requests import Capability, LoraWeight
from tests.backends.comfyui.drawing import SMALL, connect, ignore, work
from tests.contracts.backend.harness_comfyui import model
from tests.fakes.servers.comfyui import FakeComfyUI
from tests.fakes.servers.comfyui_nodes import NODES
from tests.samples import in_turn
from tests.wild.cases import cases, read_case

CASES = cases("loaders")
PASSED: dict[str, Any] = {"model": ["4", 0], "clip": ["4", 1]}


def graph(odd: dict[str, Any]) -> dict[str, Node]:
    return {
        "4": Node(class_type="CheckpointLoaderSimple", inputs={"ckpt_name": "a.safetensors"}),
        "10": Node(class_type=odd["class_type"], inputs={**odd["inputs"], **PASSED}),
        "3": Node(class_type="KSampler", inputs={"model": ["10", 0], "clip": ["10", 1]}),
    }


def loaders_before(nodes: Any) -> list[dict[str, Any]]:
    """Return the inputs of the loaders of a chain, the first one first."""
    found: list[dict[str, Any]] = []
    at: Any = nodes["3"].inputs["model"][0]
    while at != "4":
        inputs = nodes[at].inputs
        assert inputs["model"][0] == inputs["clip"][0]
        found.insert(0, {name: value for name, value in inputs.items() if name not in PASSED})
        at = inputs["model"][0]
    return found


@in_turn("case", CASES)
def test_each_lora_is_loaded_once_with_its_strength(case: Path) -> None:
    """A LoRA would not be found, act with full strength, or replace one that is always on."""
    odd = read_case(case)
    for asked in odd["asked"]:
        loras = [LoraWeight(name=name, weight=weight) for name, weight in asked["loras"]]
        if asked.get("refused"):
            with pytest.raises(Rejected):
                with_loras(graph(odd), loras)
        else:
            assert loaders_before(with_loras(graph(odd), loras)) == asked["loads"]


async def test_a_loader_without_a_list_takes_the_loras_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People would read that the server has no LoRA although it has some."""
    shipped = json.loads((resources.files("backends") / "workflows" / "sdxl.json").read_text())
    row = {"on": True, "lora": "{{lora}}", "strength": 1}
    inputs = {"lora_1": row, "model": ["checkpoint", 0], "clip": ["checkpoint", 1]}
    shipped["lora"] = {"class_type": "Power Lora Loader (rgthree)", "inputs": inputs}
    file = tmp_path / "rows.json"
    file.write_text(json.dumps(shipped))
    monkeypatch.setitem(NODES, "Power Lora Loader (rgthree)", {})
    request = SMALL.model_copy(update={"lora": (LoraWeight(name="Ink", weight=0.5),)})
    async with FakeComfyUI() as fake:
        comfy = connect(fake)
        able = frozenset({Capability.TEXT_TO_IMAGE})
        spec = replace(model(workflow=str(file)), capabilities=able)
        try:
            await comfy.verify(spec)
            assert await comfy.loras(spec) == ("ink",)
            await (await comfy.run(spec, work(request), ignore))()
        finally:
            await comfy.aclose()
        sent = fake.posts[-1]["prompt"]["lora"]["inputs"]["lora_1"]
    assert sent == {"on": True, "lora": "sub/ink.safetensors", "strength": 0.5}
