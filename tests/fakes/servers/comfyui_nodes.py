"""The node types a fake ComfyUI knows, and how it judges a graph, in the real server's words.

They are those that a real server described (see `tests/backends/comfyui/workflow/described.py`),
with the fake's own files, and a few more.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Graph = dict[str, Any]

FILES: dict[str, list[str]] = {
    "ckpt_name": [
        "sd_xl_base_1.0.safetensors",
        "sub/dreams v2.ckpt",
        "ace_step_1.5.safetensors",
        "ltx-2.safetensors",
    ],
    "unet_name": [
        "flux1-dev.safetensors",
        "flux1-schnell.safetensors",
        "wan_high.safetensors",
        "wan_low.safetensors",
        "flux-2-klein.safetensors",
        "qwen_edit.safetensors",
    ],
    "clip_name1": ["t5xxl_fp16.safetensors", "clip_l.safetensors"],
    "clip_name2": ["t5xxl_fp16.safetensors", "clip_l.safetensors"],
    "vae_name": [
        "ae.safetensors",
        "wan_2.1_vae.safetensors",
        "flux2-vae.safetensors",
        "qwen_image_vae.safetensors",
    ],
    "lora_name": ["sub/ink.safetensors"],
    "model_name": ["RealESRGAN_x4plus.pth"],
    "clip_name": ["umt5.safetensors", "qwen_3_4b.safetensors", "qwen_2.5_vl.safetensors"],
    "model_path": ["fox", "owl"],
}

_FOLDERS = {
    "checkpoints": "ckpt_name",
    "diffusion_models": "unet_name",
    "text_encoders": "clip_name1",
    "vae": "vae_name",
    "loras": "lora_name",
    "upscale_models": "model_name",
}
MODELS: dict[str, dict[str, int]] = {
    folder: dict.fromkeys(FILES[name], 6_940_000_000) for folder, name in _FOLDERS.items()
}
"""The files of each folder and their bytes."""

_PREFIX = ["STRING", {"default": "ComfyUI"}]


def _with_files(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return inputs with the files of this server in place of those of the recorded one."""
    return {name: [FILES[name]] if name in FILES else kind for name, kind in inputs.items()}


_RECORDED: dict[str, Any] = json.loads(
    (
        Path(__file__).parents[2] / "backends" / "recorded" / "comfyui" / "object_info.json"
    ).read_text()
)["nodes"]
NODES: dict[str, dict[str, Any]] = {
    kind: _with_files(told["input"].get("required", {})) for kind, told in _RECORDED.items()
} | {
    "DiffusersLoader": {"model_path": [FILES["model_path"]]},
    "LoadAudio": {"audio": [["example.wav"], {"audio_upload": True}]},
    "SaveAnimatedWEBP": {"images": ["IMAGE"], "filename_prefix": _PREFIX},
    "SetLatentNoiseMask": {"samples": ["LATENT"], "mask": ["MASK"]},
    "TextEncodeAceStepAudio1.5": {  # without what only codes of a language model need
        "clip": ["CLIP"],
        "tags": ["STRING", {}],
        "lyrics": ["STRING", {}],
        "seed": ["INT", {"default": 0, "min": 0, "max": 2**64 - 1}],
        "duration": ["FLOAT", {"min": 1.0}],
    },
    "VHS_VideoCombine": {"images": ["IMAGE"], "filename_prefix": _PREFIX},
    "Sleep": {  # a person's own node: it may load anything, and takes fewer seeds
        "text": ["STRING", {}],
        "seed": ["INT", {"default": 0, "min": 0, "max": 2**53}],
        "steps": ["INT", {"default": 4, "min": 2, "max": 60}],
    },
    "Tint": {"image": ["IMAGE"], "color": ["INT", {"min": 1, "max": 0xFFFFFF}]},
}
OPTIONAL: dict[str, dict[str, Any]] = {
    kind: _with_files(told["input"].get("optional", {})) for kind, told in _RECORDED.items()
}
OUTPUTS = {kind for kind, told in _RECORDED.items() if told.get("output_node")} | {
    "SaveAnimatedWEBP",
    "VHS_VideoCombine",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What is wrong with a graph: the body of a 400, or None; and the sound output nodes."""

    refusal: dict[str, Any] | None
    outputs: tuple[str, ...] = ()
    node_errors: dict[str, Any]


def object_info(class_type: str) -> dict[str, Any]:
    """Return the answer of /object_info/<class>: an empty object for an unknown class."""
    if class_type not in NODES:
        return {}
    output = class_type in OUTPUTS
    inputs = {"required": NODES[class_type], "optional": OPTIONAL.get(class_type, {})}
    return {class_type: {"input": inputs, "output_node": output}}


def judge(graph: Graph, uploads: set[str]) -> Verdict:
    """Validate a graph as the server does: by output node, so that a part may be good."""
    for node_id, node in graph.items():
        if node.get("class_type") not in NODES:
            info = {"node_id": node_id, "class_type": node.get("class_type"), "node_title": node_id}
            return _refused("missing_node_type", f"Node '{node_id}' not found", info)
    outputs = [key for key, node in graph.items() if node["class_type"] in OUTPUTS]
    if not outputs:
        return _refused("prompt_no_outputs", "Prompt has no outputs", {})
    errors = {key: found for key in graph if (found := _faults(graph, key, uploads))}
    good = tuple(key for key in outputs if not (upstream(graph, key) & errors.keys()))
    node_errors = {
        key: {"errors": found, "dependent_outputs": outputs, "class_type": graph[key]["class_type"]}
        for key, found in errors.items()
    }
    if good:
        return Verdict(refusal=None, outputs=good, node_errors=node_errors)
    refused = _refused("prompt_outputs_failed_validation", "Prompt outputs failed validation", {})
    assert refused.refusal is not None
    refused.refusal["node_errors"] = node_errors
    return refused


def upstream(graph: Graph, key: str) -> set[str]:
    """Return a node and everything it depends on."""
    found, todo = set(), [key]
    while todo:
        node = todo.pop()
        if node not in found and node in graph:
            found.add(node)
            todo += [value[0] for value in graph[node]["inputs"].values() if _is_link(value)]
    return found


def in_order(graph: Graph, outputs: tuple[str, ...]) -> list[str]:
    """Return the nodes that the outputs need, each after what it depends on."""
    order: list[str] = []

    def visit(key: str) -> None:
        if key not in order:
            for value in graph[key]["inputs"].values():
                if _is_link(value):
                    visit(value[0])
            order.append(key)

    for output in outputs:
        visit(output)
    return order


def _faults(graph: Graph, key: str, uploads: set[str]) -> list[dict[str, Any]]:
    node, faults = graph[key], []
    for name, kind in NODES[node["class_type"]].items():
        if name not in node["inputs"]:
            faults.append(_fault("required_input_missing", "Required input is missing", name))
        else:
            faults += _value_faults(graph, node, name, kind, uploads)
    for name, kind in OPTIONAL.get(node["class_type"], {}).items():
        if name in node["inputs"]:
            faults += _value_faults(graph, node, name, kind, uploads)
    return faults


def _value_faults(
    graph: Graph, node: dict[str, Any], name: str, kind: list[Any], uploads: set[str]
) -> list[dict[str, Any]]:
    value = node["inputs"][name]
    if _is_link(value):
        broken = value[0] not in graph
        return [_fault("exception_during_inner_validation", "…", name)] if broken else []
    if node["class_type"] in {"LoadImage", "LoadAudio"}:
        known = value in uploads
        text = f"{name} - Invalid file: {value}"
        return [] if known else [_fault("custom_validation_failed", text, name)]
    choices = kind[0] if isinstance(kind[0], list) else None
    if kind[0] == "COMBO":
        choices = kind[1]["options"]
    if choices is not None and value not in choices:
        details = f"{name}: '{value}' not in {choices}"
        return [_fault("value_not_in_list", "Value not in list", name, details)]
    if kind[0] in ("INT", "FLOAT"):  # lists cannot be looked up in a set
        limits = kind[1]
        if value < limits.get("min", value):
            return [_fault("value_smaller_than_min", f"Value {value} smaller than min", name)]
        if value > limits.get("max", value):
            return [_fault("value_bigger_than_max", f"Value {value} bigger than max", name)]
    return []


def _fault(kind: str, message: str, name: str, details: str = "") -> dict[str, Any]:
    return {
        "type": kind,
        "message": message,
        "details": details or name,
        "extra_info": {"input_name": name},
    }


def _refused(kind: str, message: str, info: dict[str, Any]) -> Verdict:
    error = {"type": kind, "message": message, "details": "", "extra_info": info}
    return Verdict(refusal={"error": error, "node_errors": {}}, node_errors={})


def _is_link(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)
