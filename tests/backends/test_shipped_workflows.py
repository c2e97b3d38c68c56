"""Every shipped workflow, against what a real ComfyUI 0.33 says of its nodes."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.comfyui.models import check_offered
from backends.comfyui.workflow.fill import fill, warm_up
from backends.comfyui.workflow.graph import Graph, names_in, words_in
from backends.comfyui.workflow.template import Workflow, parse_workflow, prepare
from queueing.core.requests import LoraWeight, TextToImage
from tests.backends.described import SHIPPED, faults, recorded

NODES = recorded()["nodes"]
MODELS = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
FILE = re.compile(r"\.(safetensors|pth)$")
FOLDERS: Mapping[tuple[str, str], str] = {
    ("UpscaleModelLoader", "model_name"): "upscale_models",
    ("LatentUpscaleModelLoader", "model_name"): "latent_upscale_models",
    ("CLIPVisionLoader", "clip_name"): "clip_vision",
    ("LTXVAudioVAELoader", "ckpt_name"): "checkpoints",
}
INPUT_FOLDERS: Mapping[str, str] = {
    "ckpt_name": "checkpoints",
    "unet_name": "diffusion_models",
    "clip_name": "text_encoders",
    "clip_name1": "text_encoders",
    "clip_name2": "text_encoders",
    "text_encoder": "text_encoders",
    "vae_name": "vae",
    "lora_name": "loras",
}


def shipped(path: Path) -> Workflow:
    graph = parse_workflow(path.read_text(encoding="utf-8"), name=path.name)
    return prepare(graph, {}, name=path.name)


def asked(template: Workflow, picture: str = "usher/a.png", **options: Any) -> Graph:
    """Return the graph of a request with these options, and with a picture where one belongs."""
    request = TextToImage.model_validate({"prompt": "a cat", **options})
    taken = {"picture": picture} if template.takes_picture else {}
    return fill(template, request, prefix="usher/1", files=taken)


def files(template: Workflow) -> set[str]:
    """Return the model files a template loads, each after its folder."""
    found = set()
    for node in template.nodes.values():
        for name, value in node.inputs.items():
            if isinstance(value, str) and FILE.search(value):
                folder = FOLDERS.get((node.class_type, name)) or INPUT_FOLDERS[name]
                found.add(f"{folder}/{value}")
    return found


def row(template: Workflow) -> str:
    rows = [line for line in MODELS.split("\n") if line.startswith(f"| `{template.name}` ")]
    assert len(rows) == 1
    return rows[0]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_real_server_has_all_that_a_template_needs(path: Path) -> None:
    """An operator would get a template that no server can run."""
    template = shipped(path)
    for key, node in template.nodes.items():
        if "lora" not in names_in(node.inputs):
            check_offered(template, key, {node.class_type: NODES[node.class_type]})
    assert faults(asked(template), NODES) == []
    options: dict[str, Any] = {
        "width": 640,
        "height": 960,
        "steps": 7,
        "guidance": 2.5,
        "count": 2,
        "seed": 2**64 - 1,
    }
    options |= {"negative": "blurred", "strength": 0.5}
    fitting = {key: value for key, value in options.items() if key in template.options}
    assert faults(asked(template, **fitting), NODES) == []
    blank = dict.fromkeys(template.needs, "blank.png")
    least = warm_up(template, seed=1, files=blank, limits={})
    assert faults(least, NODES) == []


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_template_that_draws_takes_seeds_and_loras(path: Path) -> None:
    """`/again` would repeat the same result, and no style could be added."""
    template = shipped(path)
    if template.upscales:
        return
    assert {"seed", "lora"} <= template.options
    graph = asked(template, lora=(LoraWeight(name="ink.safetensors"),), seed=3)
    loaders = [node for node in graph.values() if node.inputs.get("lora_name") == "ink.safetensors"]
    assert loaders
    nodes = {**NODES, **{node.class_type: _with_lora(node.class_type) for node in loaders}}
    assert faults(graph, nodes) == []
    seeds = [node.inputs.get("seed", node.inputs.get("noise_seed")) for node in graph.values()]
    assert 3 in seeds


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_template_has_a_row_with_its_files(path: Path) -> None:
    """Operators would not know which files to fetch, and where they belong."""
    template = shipped(path)
    told = set(re.findall(r"`([a-z_]+/[^`]+)`", row(template)))
    assert told == files(template)
    least = row(template).split("|")[-2].strip()
    assert re.fullmatch(r"0\.\d+(\.\d+)?|any", least)


def test_there_is_no_row_for_a_template_that_is_not_shipped() -> None:
    """The table would promise a template that does not exist."""
    named = set(re.findall(r"^\| `([\w-]+\.json)`", MODELS, re.MULTILINE))
    assert named == {path.name for path in SHIPPED}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_what_a_server_would_refuse_is_seen(path: Path) -> None:
    """The test of the templates could not fail."""
    template = shipped(path)
    graph = dict(asked(template))
    (save,) = template.saves
    source = graph[save]
    inputs = {name: value for name, value in source.inputs.items() if name == "filename_prefix"}
    graph[save] = replace(source, inputs=inputs)
    assert faults(graph, NODES)
    assert faults({**asked(template), "x": replace(source, class_type="Unknown")}, NODES)
    assert words_in(asked(template)) == frozenset()


def _with_lora(class_type: str) -> dict[str, object]:
    told = NODES[class_type]
    required = {**told["input"]["required"], "lora_name": [["ink.safetensors"]]}
    return {**told, "input": {**told["input"], "required": required}}
