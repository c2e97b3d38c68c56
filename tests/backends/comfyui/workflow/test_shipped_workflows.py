"""Every shipped workflow, compared with the node descriptions of a real ComfyUI 0.33."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from backends.comfyui.workflow.graph.analysis import unscaled
from backends.comfyui.workflow.graph.node_types import least_version
from backends.comfyui.workflow.graph.nodes import Node, link_of, names_in, words_in
from backends.comfyui.workflow.rendering import warm_up
from backends.comfyui.workflow.template import Template
from queueing.core.requests import Capability, LoraWeight
from tests.backends.comfyui.workflow.described import SHIPPED, faults, recorded
from tests.backends.comfyui.workflow.graphs import check_offered
from tests.backends.comfyui.workflow.shipped import asked, everything_asked, files, shipped

NODES = recorded()["nodes"]
MODELS = (Path(__file__).parents[4] / "docs" / "models.md").read_text(encoding="utf-8")
SEEDS = ("seed", "noise_seed")


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def row(template: Template) -> str:
    rows = [line for line in MODELS.split("\n") if line.startswith(f"| `{template.name}` ")]
    assert len(rows) == 1
    return rows[0]


def test_a_real_server_has_all_that_a_template_needs(subtests: pytest.Subtests) -> None:
    """An operator would get a template that no server can run."""
    for path in SHIPPED:
        with subtests.test(path.name):
            template = shipped(path)
            for key, node in template.nodes.items():
                if "lora" not in names_in(node.inputs):
                    check_offered(template, key, {node.class_type: NODES[node.class_type]})
            assert faults(asked(template), NODES) == []
            assert faults(everything_asked(template), NODES) == []
            blank = dict.fromkeys(template.needs, "blank.png")
            least = warm_up(template, seed=1, files=blank, limits={})
            assert faults(least, NODES) == []


def test_a_template_that_draws_takes_seeds_and_loras(subtests: pytest.Subtests) -> None:
    """`/again` would repeat the same result, and no style could be added."""
    for path in SHIPPED:
        with subtests.test(path.name):
            template = shipped(path)
            if Capability.UPSCALE in template.abilities:
                assert template.options == frozenset()
                continue
            assert {"seed", "lora"} <= template.options
            graph = asked(template, lora=(LoraWeight(name="ink.safetensors"),), seed=3)
            loaders = [
                node for node in graph.values() if node.inputs.get("lora_name") == "ink.safetensors"
            ]
            assert loaders
            nodes = {**NODES, **{node.class_type: _with_lora(node.class_type) for node in loaders}}
            assert faults(graph, nodes) == []
            assert 3 in [node.inputs.get(name) for node in graph.values() for name in SEEDS]


def test_each_of_several_repainted_images_keeps_what_is_not_masked() -> None:
    """Only the first of several images would come: the node makes one for each background."""
    (path,) = (path for path in SHIPPED if path.name == "flux-fill.json")
    graph = asked(shipped(path), count=3)
    (kept,) = (node for node in graph.values() if node.class_type == "ImageCompositeMasked")
    below = link_of(kept.inputs["destination"])
    assert below
    assert graph[below[0]].inputs["amount"] == 3


def test_what_people_can_ask_of_each_template() -> None:
    """A command would offer a model that cannot do it, or hide one that can."""
    draws, starts, edits = "text-to-image", "image-to-image", "image-edit"
    assert {shipped(path).name: shipped(path).abilities for path in SHIPPED} == {
        "ace-step.json": {"text-to-audio"},
        "chroma.json": {draws},
        "flux-checkpoint.json": {draws},
        "flux-fill.json": {edits},
        "flux-img2img.json": {starts},
        "flux-kontext.json": {edits, starts},
        "flux-schnell-checkpoint.json": {draws},
        "flux-schnell.json": {draws},
        "flux.json": {draws},
        "flux2-klein-base.json": {draws, edits, starts},
        "flux2-klein.json": {draws, edits, starts},
        "flux2.json": {draws, edits, starts},
        "hunyuan15-i2v.json": {"image-to-video"},
        "hunyuan15-t2v.json": {"text-to-video"},
        "ltx2.json": {"text-to-video", "image-to-video"},
        "qwen-edit.json": {edits, starts},
        "qwen-image.json": {draws},
        "sd35.json": {draws},
        "sdxl-img2img.json": {starts},
        "sdxl.json": {draws},
        "upscale-model.json": {"upscale"},
        "upscale.json": {"upscale"},
        "wan22-5b.json": {"text-to-video", "image-to-video"},
        "wan22-i2v-turbo.json": {"image-to-video"},
        "wan22-i2v.json": {"image-to-video"},
        "wan22-t2v-turbo.json": {"text-to-video"},
        "wan22-t2v.json": {"text-to-video"},
        "z-image-turbo.json": {draws},
        "z-image.json": {draws},
    }


def test_a_template_has_a_row_with_its_files(subtests: pytest.Subtests) -> None:
    """Operators would not know which files to download, and where to put them."""
    for path in SHIPPED:
        with subtests.test(path.name):
            template = shipped(path)
            told = set(re.findall(r"`([a-z_]+/[^`]+)`", row(template)))
            assert told == files(template)
            least = row(template).split("|")[-2].strip()
            nodes = least_version(node.class_type for node in template.nodes.values())
            assert re.fullmatch(r"0\.\d+(\.\d+)?|any", least)
            assert nodes is None or numbers(least) >= numbers(nodes)


def test_there_is_no_row_for_a_template_that_is_not_shipped() -> None:
    """The table would list a template that does not exist."""
    named = set(re.findall(r"^\| `([\w-]+\.json)`", MODELS, re.MULTILINE))
    assert named == {path.name for path in SHIPPED}


def test_what_a_server_would_refuse_is_seen(subtests: pytest.Subtests) -> None:
    """The test of the templates could never fail."""
    for path in SHIPPED:
        with subtests.test(path.name):
            template = shipped(path)
            graph = dict(asked(template))
            (save,) = template.saves
            source = graph[save]
            inputs = {
                name: value for name, value in source.inputs.items() if name == "filename_prefix"
            }
            graph[save] = replace(source, inputs=inputs)
            assert faults(graph, NODES)
            assert faults({**asked(template), "x": replace(source, class_type="Unknown")}, NODES)
            assert words_in(asked(template)) == frozenset()


def test_an_image_that_is_encoded_as_it_came_is_seen(subtests: pytest.Subtests) -> None:
    """A photo from a phone would fill the whole GPU, and nothing would say why."""
    for path in SHIPPED:
        with subtests.test(path.name):
            assert not unscaled(shipped(path).nodes)
    for between, found in {
        "ImageInvert": ["e"],
        "ImageScale": [],
        "ImageScaleToTotalPixels": [],
        "ImageResizeKJ": [],
    }.items():
        with subtests.test(between):
            nodes = {
                "p": Node(class_type="LoadImage", inputs={"image": "{{image}}"}),
                "m": Node(class_type=between, inputs={"image": ["p", 0]}),
                "e": Node(class_type="VAEEncodeForInpaint", inputs={"pixels": ["m", 0]}),
            }
            assert unscaled(nodes) == found
            straight = Node(class_type="VAEEncode", inputs={"pixels": ["p", 0]})
            assert unscaled({**nodes, "e": straight}) == ["e"]


def _with_lora(class_type: str) -> dict[str, object]:
    told = NODES[class_type]
    there = told["input"]["required"]["lora_name"][0]
    required = {**told["input"]["required"], "lora_name": [[*there, "ink.safetensors"]]}
    return {**told, "input": {**told["input"], "required": required}}
