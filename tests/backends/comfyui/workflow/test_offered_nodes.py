"""What a server says about its nodes: choices in three forms, and inputs that depend on others."""

import pytest
from pydantic import JsonValue

from backends.comfyui.workflow.graph.node_types import choices_of, input_of, least_version
from queueing.core.errors import BadModel
from tests.backends.comfyui.workflow.described import recorded
from tests.backends.comfyui.workflow.graphs import (
    Nodes,
    check_offered,
    ltx,
    node,
    prepared,
    references,
    song,
    wan,
)

SAVE_SOUND: JsonValue = {
    "SaveAudioAdvanced": {
        "input": {
            "required": {
                "audio": ["AUDIO"],
                "filename_prefix": ["STRING", {}],
                "format": [
                    "COMFY_DYNAMICCOMBO_V3",
                    {
                        "options": [
                            {"key": "flac", "inputs": {"required": {}}},
                            {
                                "key": "mp3",
                                "inputs": {
                                    "required": {"quality": ["COMBO", {"options": ["V0", "128k"]}]},
                                    "optional": {"gain": ["FLOAT", {"min": 0.0, "max": 2.0}]},
                                },
                            },
                        ]
                    },
                ],
            }
        }
    }
}
BATCH: JsonValue = {
    "BatchImagesNode": {
        "input": {
            "required": {
                "images": [
                    "COMFY_AUTOGROW_V3",
                    {
                        "template": {
                            "input": {"required": {"image": ["IMAGE", {}]}},
                            "prefix": "image",
                            "min": 1,
                            "max": 50,
                        }
                    },
                ]
            }
        }
    }
}


def with_sound(**inputs: JsonValue) -> Nodes:
    saving = node("SaveAudioAdvanced", audio=["decode", 0], filename_prefix="x", **inputs)
    return song() | {"save": saving}


def test_a_choice_that_is_offered_passes(subtests: pytest.Subtests) -> None:
    """A template of the newest nodes would be called broken."""
    choices: list[dict[str, JsonValue]] = [
        {"format": "flac"},
        {"format": "mp3", "format.quality": "V0"},
        {"format": "mp3", "format.quality": "V0", "format.gain": 1.0},
        {"format": "{{format:flac}}"},
    ]
    for inputs in choices:
        with subtests.test(inputs=inputs):
            check_offered(prepared(with_sound(**inputs)), "save", SAVE_SOUND)


def test_a_choice_is_checked_before_it_fails_after_the_sampling(subtests: pytest.Subtests) -> None:
    """The server accepts a wrong format and only fails once the song is made."""
    cases: list[tuple[Nodes, str]] = [
        ({"format": "opus"}, "format: the server does not have opus; it has: flac, mp3"),
        ({"format": "mp3"}, r"required input format\.quality"),
        ({"format": "mp3", "format.quality": "V9"}, r"format\.quality: the server does not have"),
        ({"format": "mp3", "format.quality": "V0", "format.gain": 3}, r"format\.gain: 3 is more"),
        ({}, "required input format"),
    ]
    for inputs, says in cases:
        with subtests.test(says=says), pytest.raises(BadModel, match=says):
            check_offered(prepared(with_sound(**inputs)), "save", SAVE_SOUND)


def test_a_videos_old_and_new_forms_both_pass() -> None:
    """A template that fits old and new servers would be refused by one of them."""
    offered: JsonValue = {"SaveVideo": recorded()["nodes"]["SaveVideo"]}
    saving = {"video": ["video", 0], "filename_prefix": "x", "format": "mp4"}
    for more in (
        {"codec": "h264"},
        {"format.codec": "h264", "format.codec.encoding": "auto"},
        {"format.codec": "auto"},
    ):
        check_offered(prepared(wan(save=node("SaveVideo", **saving, **more))), "save", offered)
    for wrong, says in (
        ({"format": "mp5"}, "does not have mp5"),
        ({"format.codec": "h266"}, "does not have h266"),
        ({"format.codec": "h264", "format.codec.encoding": "re-encode"}, r"encoding\.c.* not set"),
    ):
        graph = wan(save=node("SaveVideo", **{**saving, **wrong}))
        with pytest.raises(BadModel, match=says):
            check_offered(prepared(graph), "save", offered)


def test_a_list_of_inputs_needs_its_first() -> None:
    """A batch of images would be called incomplete, or an empty one complete."""
    nodes = wan(batch=node("BatchImagesNode", **{"images.image0": ["decode", 0]}))
    check_offered(prepared(nodes), "batch", BATCH)
    nodes = wan(batch=node("BatchImagesNode", **{"images.image1": ["decode", 0]}))
    with pytest.raises(BadModel, match=r"required input images\.image0"):
        check_offered(prepared(nodes), "batch", BATCH)


def test_choices_are_read_in_every_shape() -> None:
    """Names of LoRAs and files would be unknown on newer servers."""
    offered: JsonValue = {
        "Old": {"input": {"required": {"x": [["a", "b"], {}]}}},
        "New": {"input": {"optional": {"x": ["COMBO", {"options": ["a", "b"]}]}}},
        "Newest": {
            "input": {"required": {"x": ["COMFY_DYNAMICCOMBO_V3", {"options": [{"key": "a"}]}]}}
        },
    }
    assert choices_of(offered, "Old", "x") == choices_of(offered, "New", "x") == ("a", "b")
    assert choices_of(offered, "Newest", "x") == ("a",)
    assert choices_of(offered, "None", "x") == ()
    assert input_of(offered, "Old", "y") is None


def test_an_odd_description_breaks_nothing(subtests: pytest.Subtests) -> None:
    """One custom node pack would make it impossible to check a server."""
    kinds: list[JsonValue] = [
        None,
        [],
        ["COMFY_DYNAMICCOMBO_V3"],
        ["COMFY_DYNAMICCOMBO_V3", {"options": [None, "a", {"key": "mp3", "inputs": 7}]}],
        ["COMFY_AUTOGROW_V3", {"template": {}}],
        ["COMFY_AUTOGROW_V3", {"template": {"names": [1, None], "input": {"required": []}}}],
        ["COMFY_AUTOGROW_V3", {"template": {"prefix": 1, "max": 10**9, "input": {"required": {"a": 1}}}}],
        ["COMFY_MATCHTYPE_V3", {"template": []}],
    ]  # fmt: skip
    for kind in kinds:
        with subtests.test(kind=kind):
            info: JsonValue = {"SaveAudioAdvanced": {"input": {"required": {"format": kind}}}}
            own = prepared(with_sound(format="mp3"))
            try:
                check_offered(own, "save", info)
            except BadModel as error:
                assert "format" in str(error)  # noqa: PT017  # either is right, a crash is not


def test_a_server_that_is_too_old_is_told_what_it_takes(subtests: pytest.Subtests) -> None:
    """An operator would look for a custom node pack that does not exist."""
    cases: list[tuple[Nodes, str, str]] = [
        (wan(), "video", r"CreateVideo.*needs ComfyUI 0\.3\.31 or newer"),
        (ltx(), "both", r"LTXVConcatAVLatent.*needs ComfyUI 0\.8 or newer"),
        (ltx(), "video", r"CreateVideo.*needs ComfyUI 0\.8 or newer"),
        (references(), "latent", r"needs ComfyUI 0\.4 or newer"),
        (song(), "latent", r"needs ComfyUI 0\.12 or newer"),
        (wan(video=node("OwnNode", images=["decode", 0], fps=16)), "video", "custom node pack"),
        (wan(), "first", "ComfyUI's own node, and the server's log says why"),
    ]
    for nodes, missing, says in cases:
        with subtests.test(missing=missing, says=says), pytest.raises(BadModel, match=says):
            check_offered(prepared(nodes), missing, {})


def test_versions_are_compared_as_numbers() -> None:
    """0.12 would count as older than 0.3.60."""
    assert least_version(["EmptyAceStep1.5LatentAudio", "TextEncodeQwenImageEditPlus"]) == "0.12"
    assert least_version(["KSampler"]) is None
