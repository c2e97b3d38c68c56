"""Workflow templates: what is refused at start, and that filling one can never change its shape."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from backends.comfyui.model_templates import read_templates
from backends.comfyui.workflow.graph.node_types import NumberRange
from backends.comfyui.workflow.graph.nodes import WORDS, as_json
from backends.comfyui.workflow.reading import parse_workflow
from backends.comfyui.workflow.rendering import fill, fit_size, warm_up
from backends.comfyui.workflow.template import Template, blame, prepare
from queueing.core.errors import BadModel, Rejected
from queueing.core.requests import SEED_MAX, Capability, LoraWeight, TextToImage
from queueing.core.specs import ModelSpec
from tests.told import words

TEMPLATE: dict[str, Any] = {
    "1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "{{checkpoint:a.ckpt}}"}},
    "2": {
        "class_type": "CLIPTextEncode",
        "inputs": {"text": "a photo, {{prompt}}", "clip": ["1", 1]},
    },
    "3": {"class_type": "KSampler", "inputs": {"seed": "{{seed}}", "steps": "{{steps:20}}"}},
    "4": {"class_type": "SaveImage", "inputs": {"images": ["3", 0], "filename_prefix": "x"}},
}


def workflow(template: dict[str, Any] | None = None, **values: JsonValue) -> Template:
    nodes = parse_workflow(json.dumps(template or TEMPLATE), name="own.json")
    return prepare(nodes, values, name="own.json")


def changed(node: str, **inputs: Any) -> dict[str, Any]:
    """Return the template with inputs of a node set."""
    old = TEMPLATE[node]
    return {**TEMPLATE, node: {**old, "inputs": {**old["inputs"], **inputs}}}


def shipped(name: str) -> tuple[Template, ...]:
    model = ModelSpec(
        name="m",
        backends=("b",),
        capabilities=frozenset({Capability.TEXT_TO_IMAGE}),
        options={"workflow": f"{name}.json", "image_workflow": None},
    )
    if name != "flux-schnell":
        able = frozenset({Capability.TEXT_TO_IMAGE, Capability.IMAGE_TO_IMAGE})
        model = ModelSpec(name="m", backends=("b",), capabilities=able, options=model.options)
    return read_templates(model).all


def upscaling(name: str) -> Template:
    able = frozenset({Capability.UPSCALE})
    spec = ModelSpec(
        name="m", backends=("b",), capabilities=able, options={"workflow": f"{name}.json"}
    )
    return read_templates(spec).all[0]


DRAWING = [*shipped("sdxl"), *shipped("flux"), *shipped("flux-schnell")]


def test_shipped_templates_honour_what_people_can_ask() -> None:
    """An option would be refused by a model that supports it."""
    common = {"width", "height", "steps", "seed", "count", "lora", "sampler", "scheduler"}
    options = {template.name: template.options for template in DRAWING}
    assert options == {
        "sdxl.json": common | {"negative", "guidance"},
        "sdxl-img2img.json": common | {"negative", "guidance", "strength"},
        "flux.json": common | {"guidance"},
        "flux-img2img.json": common | {"guidance", "strength"},
        "flux-schnell.json": common,
    }


def test_the_documentation_names_every_placeholder() -> None:
    """Operators could not find out which placeholders their workflows may use."""
    root = Path(__file__).parents[4]
    text = (root / "docs" / "workflows.md").read_text(encoding="utf-8")
    assert not [word for word in WORDS if f"`{{{{{word}}}}}`" not in text]


def test_numbers_stay_numbers_and_texts_are_joined() -> None:
    """The server would get "20" steps or lose the template's own words."""
    graph = fill(workflow(), TextToImage(prompt="a cat", seed=7), prefix="usher/1")
    assert graph["3"].inputs == {"seed": 7, "steps": 20}
    assert graph["2"].inputs["text"] == "a photo, a cat"
    assert graph["1"].inputs["ckpt_name"] == "a.ckpt"
    assert graph["4"].inputs["filename_prefix"] == "usher/1"


def test_the_operators_values_replace_the_templates_defaults() -> None:
    """One template could not serve several checkpoints."""
    own = workflow(checkpoint="b.safetensors", steps=30)
    graph = fill(own, TextToImage(prompt="a"), prefix="p")
    assert graph["1"].inputs["ckpt_name"] == "b.safetensors"
    assert graph["3"].inputs["steps"] == 30
    assert fill(own, TextToImage(prompt="a", steps=4), prefix="p")["3"].inputs["steps"] == 4


@given(prompt=st.text(), seed=st.integers(0, SEED_MAX))
def test_no_prompt_can_change_the_graph(prompt: str, seed: int) -> None:
    """A person could run nodes or read files by what they type."""
    graph = as_json(fill(workflow(), TextToImage(prompt=prompt, seed=seed), prefix="p"))
    again = json.loads(json.dumps(graph))
    assert again == graph
    assert again["2"]["inputs"] == {"text": f"a photo, {prompt}", "clip": ["1", 1]}
    assert again["3"]["inputs"] == {"seed": seed, "steps": 20}


PROMPTS = (
    '["1", 1]',
    '{"class_type": "LoadImage", "inputs": {}}',
    "7",
    "true",
    "null",
    'x", "ckpt_name": "../../secret',
    'x"}}, "9": {"class_type": "RunPython", "inputs": {"code": "import os',
    '\\", "seed": 1, "x": "',
)


@pytest.mark.parametrize("template", ["a photo, {{prompt}}", "{{prompt}}"], ids=["within", "whole"])
def test_a_prompt_that_looks_like_json_stays_text(template: str, subtests: pytest.Subtests) -> None:
    """A person could link nodes to others, or add nodes, by what they type."""
    for prompt in PROMPTS:
        with subtests.test(prompt):
            own = workflow(changed("2", text=template))
            request = TextToImage(prompt=prompt, seed=7)
            graph = json.loads(json.dumps(as_json(fill(own, request, prefix="p"))))
            other = request.model_copy(update={"prompt": "cat"})
            plain = json.loads(json.dumps(as_json(fill(own, other, prefix="p"))))
            assert graph["2"]["inputs"] == {
                "text": template.replace("{{prompt}}", prompt),
                "clip": ["1", 1],
            }
            assert graph | {"2": None} == plain | {"2": None}


def test_a_prompt_that_looks_like_a_placeholder_stays_text() -> None:
    """People could read the operator's values through their prompts."""
    graph = fill(workflow(), TextToImage(prompt="{{checkpoint}} {{seed}}"), prefix="p")
    assert graph["2"].inputs["text"] == "a photo, {{checkpoint}} {{seed}}"


NO_WORKFLOWS = (
    ("", "the file is empty"),
    ("{", "not JSON"),
    ("[" * 100_000, "not JSON"),
    ("[]", "not a workflow"),
    ("{}", "not a workflow"),
    ('{"nodes": [], "links": []}', r"Export \(API\)"),
    ('{"1": 5}', "node 1: not a node"),
    ('{"1": {"inputs": {}}}', "node 1: class_type is missing"),
    ('{"7": {"class_type": "KSampler"}}', r"node 7 \(KSampler\): inputs are missing"),
    ('{"1": {"class_type": "A", "inputs": {"x": ["9", 0]}}}', "node 1: linked to node 9"),
    ('{"1": {"class_type": "A", "inputs": {"x": "{{prompt"}}}', "node 1.*malformed placeholder"),
    ('{"1": {"class_type": "A", "inputs": {"x": "{{Prompt}}"}}}', "node 1.*malformed"),
)


def test_files_that_are_no_workflow_are_refused_with_file_and_node(
    subtests: pytest.Subtests,
) -> None:
    """A faulty file would only be noticed when a person's job fails."""
    for text, says in NO_WORKFLOWS:
        with subtests.test(text[:80]), pytest.raises(BadModel, match=f"own.json: .*{says}"):
            parse_workflow(text, name="own.json")


def test_templates_that_cannot_work_are_refused(subtests: pytest.Subtests) -> None:
    """Every job of the model would fail, instead of the start."""
    cases: list[tuple[dict[str, Any], str]] = [
        (changed("2", text="no prompt"), r"no node has \{\{prompt\}\}"),
        (changed("3", steps="{{steps}}"), r"node 3 \(KSampler\): \{\{steps\}\} needs a default"),
        (changed("3", steps="{{stepz}}"), r"node 3.*unknown.*did you mean \{\{steps\}\}"),
        (changed("3", cfg="{{my_cfg}}"), r"node 3.*set values.my_cfg"),
        (changed("3", steps="{{steps:many}}"), r"default of \{\{steps\}\}"),
        (changed("3", steps="{{steps:0}}"), r"default of \{\{steps\}\}"),
        (changed("3", again="{{steps:21}}"), "two different defaults"),
        (changed("3", seed="{{seed:5}}"), "seed is part of each request"),
        (changed("3", file="{{lora}}"), "must be in a LoraLoader"),
        ({**TEMPLATE, "4": {"class_type": "PreviewImage", "inputs": {}}}, "no output node"),
    ]
    for template, says in cases:
        with subtests.test(says=says), pytest.raises(BadModel, match=f"own.json: .*{says}"):
            workflow(template)


def test_values_must_be_plain(subtests: pytest.Subtests) -> None:
    """A value could add links or placeholders to the graph."""
    values: list[JsonValue] = [None, [1], "{{prompt}}"]
    for value in values:
        with subtests.test(value=value), pytest.raises(BadModel, match=r"values\.checkpoint"):
            workflow(checkpoint=value)


def test_options_without_a_place_are_refused_in_a_sentence(subtests: pytest.Subtests) -> None:
    """People would get something other than they asked for."""
    cases: list[tuple[TextToImage, str]] = [
        (TextToImage(prompt="a", width=512), "set the width"),
        (TextToImage(prompt="a", negative="b"), "set the negative prompt"),
        (TextToImage(prompt="a", lora=(LoraWeight(name="x"),)), "set the LoRA"),
        (TextToImage(prompt="a", guidance=2.0), "set the guidance"),
        (TextToImage(prompt="a", count=2), "one image at a time"),
    ]
    for request_, says in cases:
        with subtests.test(says=says):
            with pytest.raises(Rejected) as caught:
                fill(workflow(), request_, prefix="p")
            assert says in words(caught.value)
            assert words(caught.value).startswith("This model ")


def test_an_image_where_none_fits_and_the_other_way_round_are_refused() -> None:
    """An image to start from would silently be ignored."""
    plain, image = shipped("sdxl")
    with pytest.raises(Rejected, match="no_start"):
        fill(plain, TextToImage(prompt="a"), prefix="p", files={"image": "a.png"})
    with pytest.raises(Rejected, match="needs_start"):
        fill(image, TextToImage(prompt="a"), prefix="p")


def test_sizes_are_rounded_to_what_the_nodes_can_do() -> None:
    """The server would fail, or draw another size than Usher says."""
    request = TextToImage(prompt="a", width=1003, height=1027)
    sdxl, flux = shipped("sdxl")[0], shipped("flux")[0]
    sized = fill(sdxl, request, prefix="p")["latent"].inputs
    assert (sized["width"], sized["height"]) == (1000, 1024)
    graph = fill(flux, request, prefix="p")
    for node in ("latent", "shift"):
        assert (graph[node].inputs["width"], graph[node].inputs["height"]) == (1008, 1024)


def test_without_a_lora_its_loader_is_taken_out() -> None:
    """A template with a LoRA slot could not be used without one."""
    sdxl = shipped("sdxl")[0]
    bare = fill(sdxl, TextToImage(prompt="a"), prefix="p")
    assert "lora" not in bare
    assert bare["sampler"].inputs["model"] == ["checkpoint", 0]
    assert bare["positive"].inputs["clip"] == ["checkpoint", 1]
    styled = fill(
        sdxl, TextToImage(prompt="a", lora=(LoraWeight(name="ink.safetensors"),)), prefix="p"
    )
    assert styled["lora"].inputs["lora_name"] == "ink.safetensors"
    assert styled["sampler"].inputs["model"] == ["lora", 0]


def test_a_chain_of_lora_loaders_is_taken_out_whole() -> None:
    """Two LoRA slots would leave a link to a node that is gone."""
    slot = {"lora_name": "{{lora}}", "strength_model": 1}
    template = {
        **changed("3", model=["6", 0]),
        "5": {"class_type": "LoraLoaderModelOnly", "inputs": {**slot, "model": ["1", 0]}},
        "6": {"class_type": "LoraLoaderModelOnly", "inputs": {**slot, "model": ["5", 0]}},
    }
    graph = fill(workflow(template), TextToImage(prompt="a"), prefix="p")
    assert graph["3"].inputs["model"] == ["1", 0]
    assert set(graph) == set(TEMPLATE)


def test_a_warm_up_is_small_and_keeps_no_file() -> None:
    """Loading ahead would take as long as drawing, and litter the server."""
    graph = warm_up(shipped("sdxl")[0], seed=3, limits={})
    assert graph["latent"].inputs == {"width": 64, "height": 64, "batch_size": 1}
    assert graph["sampler"].inputs["steps"] == 1
    assert graph["save"].class_type == "PreviewImage"
    assert graph["save"].inputs == {"images": ["decode", 0]}


def test_a_warm_up_is_as_small_as_the_server_allows() -> None:
    """A model whose nodes require larger values than the minimum would never be loaded."""
    limits = {
        "width": NumberRange(500, 2048),
        "height": NumberRange(16),
        "steps": NumberRange(4, 50),
    }
    graph = warm_up(shipped("sdxl")[0], seed=3, limits=limits)
    assert graph["latent"].inputs == {"width": 504, "height": 64, "batch_size": 1}
    assert graph["sampler"].inputs["steps"] == 4


def test_blame_names_the_placeholders_of_an_input() -> None:
    """The operator would be blamed for a person's mistake, or the reverse."""
    own = workflow()
    assert blame(own, "3", "steps") == {"steps"}
    assert blame(own, "1", "ckpt_name") == frozenset()
    assert blame(own, "gone", "x") == frozenset()


@given(
    width=st.integers(1, 20_000), height=st.integers(1, 20_000), side=st.sampled_from([512, 1024])
)
def test_an_image_keeps_its_shape_within_bounds(width: int, height: int, side: int) -> None:
    """A large photo would be drawn at its full size and fill the GPU."""
    fitted = fit_size((width, height), (side, side))
    assert all(64 <= length <= 8192 for length in fitted)
    if 0.25 < width / height < 4:
        assert abs(fitted[0] * fitted[1] / side**2 - 1) < 0.01
        assert abs(fitted[0] / fitted[1] / (width / height) - 1) < 0.01
