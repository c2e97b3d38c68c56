"""Finds which images, sounds and LoRAs of an exported workflow requests may replace. Pure."""

import re
from collections.abc import Iterator

from pydantic import JsonValue

from backends.comfyui.workflow.exported.links import (
    InputPlace,
    behind,
    drawn_inputs,
    first_samplers,
    samplers,
)
from backends.comfyui.workflow.graph.analysis import Medium
from backends.comfyui.workflow.graph.node_types import input_of, rules_in
from backends.comfyui.workflow.graph.nodes import (
    Graph,
    Node,
    bypass,
    is_model_file,
    leading_to,
    link_of,
)

Found = Iterator[tuple[InputPlace, str]]
"""Inputs, and the placeholder for each."""

LOADS_IMAGE = re.compile(r"^LoadImage(Mask)?$")
_FAST = re.compile(
    r"light(ning|x2v)|turbo|\blcm\b|hyper|dmd|distill|accel|causvid|schnell|[248][ _-]?steps?",
    re.IGNORECASE,
)
_LAST = re.compile(r"end_?image|last_?(image|frame)|end_?frame")
_NUMBERED = re.compile(r"image_?(\d)$")


def lora(graph: Graph) -> Found:
    """Yield the first LoRA that sets a style, which requests may replace.

    A LoRA that makes a model fast stays, because the few steps of the workflow depend on it.
    """
    for key, node in graph.items():
        name = node.inputs.get("lora_name")
        if (
            isinstance(name, str)
            and bypass(node)
            and is_model_file(name)
            and not _FAST.search(name)
        ):
            if "{" not in name:
                yield InputPlace(node=key, name="lora_name"), f"{{{{lora:{name}}}}}"
            return


def files(graph: Graph, medium: Medium, offered: JsonValue) -> Found:
    """Yield the images and the sound that requests provide.

    An image that no sampler sees, such as a watermark, belongs to the workflow.
    """
    for key, node in graph.items():
        if node.class_type == "LoadAudio" and isinstance(node.inputs.get("audio"), str):
            yield InputPlace(node=key, name="audio"), "{{audio}}"
            break
    seen = seen_by_samplers(graph)
    loaded = [
        key
        for key, node in graph.items()
        if isinstance(node.inputs.get("image"), str) and _loads_image(node, offered)
        if key in seen
    ]
    masks = [key for key in loaded if _is_mask(graph, key)]
    for key in masks[:1]:
        yield InputPlace(node=key, name="image"), "{{mask}}"
    images = [key for key in loaded if key not in masks]
    used = {key: _used_as(graph, key) for key in images}
    if medium is Medium.VIDEO:
        last = [key for key in images if any(map(_LAST.search, used[key]))][:1]
        yield from ((InputPlace(node=key, name="image"), "{{last_image}}") for key in last)
        images = [key for key in images if key not in last]
        words = ["image"]
    else:
        words = ["image", "image2", "image3", "image4"]
    starts = _started_from(graph)
    images.sort(key=lambda key: (key not in starts, _number(used[key])))
    for key, word in zip(images, words, strict=False):
        yield InputPlace(node=key, name="image"), f"{{{{{word}}}}}"


def _is_mask(graph: Graph, key: str) -> bool:
    """Return whether a loaded image is used as a mask only."""
    kinds = {
        node.class_type
        for node in graph.values()
        if any(link and link[0] == key for link in map(link_of, node.inputs.values()))
    }
    return graph[key].class_type == "LoadImageMask" or kinds == {"ImageToMask"}


def seen_by_samplers(graph: Graph) -> Graph:
    """Return what samplers depend on; everything if there are none."""
    drawing = samplers(graph)
    return leading_to(graph, drawing) if drawing else graph


def _loads_image(node: Node, offered: JsonValue) -> bool:
    kind = input_of(offered, node.class_type, "image")
    return bool(LOADS_IMAGE.match(node.class_type) or rules_in(kind).get("image_upload"))


def _started_from(graph: Graph) -> frozenset[str]:
    """Return what the first samplers start from."""
    found = (behind(graph, key, drawn_inputs(graph[key])) for key in first_samplers(graph))
    return frozenset[str]().union(*found)


def _used_as(graph: Graph, key: str) -> frozenset[str]:
    """Return the names of the inputs that an image reaches, directly or through other nodes."""
    names, todo, seen = set[str](), [key], {key}
    while todo:
        source = todo.pop()
        for other, node in graph.items():
            taken = {
                name
                for name, value in node.inputs.items()
                if (link_of(value) or ("",))[0] == source
            }
            names |= taken
            if taken and other not in seen and taken <= {"image", "pixels", "images", "input"}:
                seen.add(other)
                todo.append(other)
    return frozenset(names)


def _number(names: frozenset[str]) -> int:
    """Return the place of an image in a row of images."""
    return min((int(found[1]) for name in names if (found := _NUMBERED.search(name))), default=9)
