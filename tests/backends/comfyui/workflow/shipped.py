"""The shipped workflows, the files they name, and the graphs of requests for them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backends.comfyui.workflow.graph.analysis import Medium
from backends.comfyui.workflow.graph.nodes import FILES, Asked, Graph
from backends.comfyui.workflow.reading import parse_workflow
from backends.comfyui.workflow.rendering import fill
from backends.comfyui.workflow.template import Template, prepare
from queueing.core.requests import TextToAudio, TextToImage, TextToVideo

_FILE = re.compile(r"\.(safetensors|pth)$")
_FOLDERS: Mapping[tuple[str, str], str] = {
    ("UpscaleModelLoader", "model_name"): "upscale_models",
    ("LatentUpscaleModelLoader", "model_name"): "latent_upscale_models",
    ("CLIPVisionLoader", "clip_name"): "clip_vision",
}
_INPUT_FOLDERS: Mapping[str, str] = {
    "ckpt_name": "checkpoints",
    "unet_name": "diffusion_models",
    "clip_name": "text_encoders",
    "clip_name1": "text_encoders",
    "clip_name2": "text_encoders",
    "text_encoder": "text_encoders",
    "vae_name": "vae",
    "lora_name": "loras",
}
_REQUESTS: Mapping[Medium, type[Asked]] = {
    Medium.IMAGE: TextToImage,
    Medium.VIDEO: TextToVideo,
    Medium.SOUND: TextToAudio,
}
EVERYTHING: Mapping[str, Any] = {
    "negative": "blurred",
    "width": 640,
    "height": 960,
    "steps": 7,
    "guidance": 2.5,
    "count": 2,
    "seed": 2**64 - 1,
    "strength": 0.5,
    "seconds": 3.3,
    "fps": 30,
    "lyrics": "[Verse]\nA cat",
}


def shipped(path: Path) -> Template:
    """Return a shipped template with its own values."""
    graph = parse_workflow(path.read_text(encoding="utf-8"), name=path.name)
    return prepare(graph, {}, name=path.name)


def asked(template: Template, image: str = "usher/a.png", **options: Any) -> Graph:
    """Return the graph of a request with these options, and with the files that it needs."""
    return _filled(template, dict.fromkeys(template.needs, image), options)


def everything_asked(template: Template, image: str = "usher/a.png") -> Graph:
    """Return the graph of a request with every option and file that a template has a place for."""
    options = {name: value for name, value in EVERYTHING.items() if name in template.options}
    return _filled(template, dict.fromkeys(template.placeholders & FILES, image), options)


def files(template: Template) -> set[str]:
    """Return the model files a template loads, each after its folder."""
    found = set()
    for node in template.nodes.values():
        for name, value in node.inputs.items():
            if isinstance(value, str) and _FILE.search(value):
                folder = _FOLDERS.get((node.class_type, name)) or _INPUT_FOLDERS[name]
                found.add(f"{folder}/{value}")
    return found


def _filled(template: Template, places: Mapping[str, str], options: Mapping[str, Any]) -> Graph:
    request = _REQUESTS[template.medium].model_validate({"prompt": "a cat", **options})
    return fill(template, request, prefix="usher/1", files=places)
