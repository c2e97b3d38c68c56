"""What a model's options mean on ComfyUI, and how a server's list of models is read."""

from pathlib import Path

import pytest
from pydantic import JsonValue

from backends.comfyui.model_templates import read_templates
from backends.common.model_names import lora_named
from queueing.core.errors import BadModel, Rejected
from queueing.core.requests import Capability, TextToImage
from queueing.core.specs import ModelSpec
from tests.backends.comfyui.workflow.graphs import check_offered
from tests.fakes.servers.comfyui_nodes import object_info
from tests.told import words

TEXT, IMAGE = Capability.TEXT_TO_IMAGE, Capability.IMAGE_TO_IMAGE
UPSCALE = Capability.UPSCALE
LORAS = ("sub/Ink.safetensors", "win\\pixel-art.safetensors", "detail.pt")


def model(*able: Capability, **options: JsonValue) -> ModelSpec:
    return ModelSpec(name="m", backends=("b",), capabilities=frozenset(able), options=options)


def test_a_shipped_template_brings_its_image_variant_along() -> None:
    """Starting from an image would need a second setting."""
    templates = read_templates(model(TEXT, IMAGE, workflow="flux.json"))
    assert [each.name for each in templates.all] == ["flux.json", "flux-img2img.json"]
    asked = TextToImage(prompt="a")
    assert templates.serving(asked, ()).name == "flux.json"
    assert templates.serving(asked, ("image",)).name == "flux-img2img.json"


def test_a_model_takes_what_one_of_its_templates_takes() -> None:
    """`--strength` would be refused although the model can start from an image."""
    both = read_templates(model(TEXT, IMAGE, workflow="flux.json")).options
    plain = read_templates(model(TEXT, workflow="flux.json")).options
    assert both - plain == {"strength"}
    assert "negative" not in both
    assert {"width", "height", "steps", "seed", "count", "guidance"} <= plain


def test_wrong_options_are_refused_with_the_setting(subtests: pytest.Subtests) -> None:
    """The operator would not learn which line is wrong."""
    cases: list[tuple[ModelSpec, str]] = [
        (model(TEXT), r"models\.m\.workflow: is missing"),
        (model(TEXT, workflow="sdxl.json", size=3), r"models\.m\.size: "),
        (model(TEXT, workflow="nothing.json"), "nothing.json does not exist.*sdxl.json"),
        (model(TEXT, workflow="/"), "cannot be read"),
        (model(TEXT, workflow="sdxl-img2img.json"), "cannot do text-to-image"),
        (model(IMAGE, workflow="flux-schnell.json"), "cannot do image-to-image"),
        (model(UPSCALE, workflow="sdxl.json"), "cannot do upscale"),
        (model(IMAGE, workflow="upscale.json"), "cannot do image-to-image"),
        (model(TEXT, workflow="sdxl.json", values={"unet": "x"}), "no placeholder.*named unet"),
        (model(TEXT, workflow="sdxl.json", values={"steps": 900}), r"default of \{\{steps\}\}"),
    ]
    for spec, says in cases:
        with subtests.test(says=says), pytest.raises(BadModel, match=says):
            read_templates(spec)


def test_a_lora_is_known_by_its_path_its_file_or_its_name(subtests: pytest.Subtests) -> None:
    """People would have to type folders and endings, with Windows' backslashes."""
    cases: list[tuple[str, str]] = [
        ("sub/Ink.safetensors", LORAS[0]),
        ("ink.safetensors", LORAS[0]),
        ("INK", LORAS[0]),
        ("pixel-art", LORAS[1]),
        ("detail.pt", LORAS[2]),
    ]
    for word, file in cases:
        with subtests.test(word=word, file=file):
            assert lora_named(word, LORAS) == file


def test_an_unknown_lora_is_refused_with_the_nearest_names() -> None:
    """A person would only learn that a name is not in a list."""
    with pytest.raises(Rejected) as near:
        lora_named("pixelart", LORAS)
    with pytest.raises(Rejected) as none:
        lora_named("cat", ())
    assert words(near.value) == "This server has no LoRA named pixelart; it has: pixel-art."
    assert words(none.value).endswith("no LoRA named cat.")


def test_an_operators_own_file_is_read(tmp_path: Path) -> None:
    """Only the shipped templates could be used."""
    own = tmp_path / "own.json"
    with pytest.raises(BadModel, match="does not exist"):
        read_templates(model(TEXT, workflow=str(own)))
    own.write_bytes(b"\xff")
    with pytest.raises(BadModel, match="is not UTF-8 text"):
        read_templates(model(TEXT, workflow=str(own)))
    own.write_text(
        '{"1": {"class_type": "X", "inputs": {"text": "{{prompt}}", "filename_prefix": ""}}}'
    )
    (plain,) = read_templates(model(TEXT, workflow=str(own))).all
    assert plain.saves == ("1",)
    assert plain.options == frozenset()


def test_a_missing_node_file_or_sampler_is_named() -> None:
    """`usher check` would accept a model that cannot run."""
    spec = model(TEXT, workflow="flux.json", values={"unet": "other.gguf", "sampler": "nope"})
    workflow = read_templates(spec).all[0]
    with pytest.raises(
        BadModel, match=r"node unet \(UNETLoader\).*not have other.gguf; it has: fl"
    ):
        check_offered(workflow, "unet", object_info("UNETLoader"))
    with pytest.raises(BadModel, match=r"node method.*not have nope"):
        check_offered(workflow, "method", object_info("KSamplerSelect"))
    with pytest.raises(BadModel, match="no such node; it is ComfyUI's own"):
        check_offered(workflow, "unet", {})
    newer: JsonValue = {"UNETLoader": {"input": {"required": {"new_setting": ["INT", {}]}}}}
    with pytest.raises(BadModel, match="required input new_setting"):
        check_offered(workflow, "unet", newer)


def test_a_loras_name_cannot_hide_signs_or_flood_a_message() -> None:
    """A server could reverse the direction of the bot's text, or fill a chat."""
    files = ["ink.safetensors", "a\u202eb\x1b\n.safetensors", "x" * 5000]
    with pytest.raises(Rejected) as refused:
        lora_named("none", files)
    told = words(refused.value)
    assert told.isprintable()
    assert len(told) < 300
    assert lora_named("ab", files) == files[1]
