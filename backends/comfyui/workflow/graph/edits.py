"""Removes the parts of a graph for absent files. Pure."""

import re
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from pydantic import JsonValue

from backends.comfyui.workflow.graph.nodes import (
    IMAGES,
    Graph,
    Node,
    link_of,
    names_in,
)

_SPARED: Mapping[str, frozenset[str]] = {
    "CosmosImageToVideoLatent": frozenset({"start_image", "end_image"}),
    "CosmosPredict2ImageToVideoLatent": frozenset({"start_image", "end_image"}),
    "CreateVideo": frozenset({"audio"}),
    "HunyuanVideo15ImageToVideo": frozenset({"clip_vision_output"}),
    "ImageStitch": frozenset({"image2"}),
    "TextEncodeQwenImageEdit": frozenset({"image"}),
    "TextEncodeQwenImageEditPlus": frozenset({"image1", "image2", "image3"}),
    "VHS_VideoCombine": frozenset({"audio"}),
    "Wan22ImageToVideoLatent": frozenset({"start_image"}),
    "WanFirstLastFrameToVideo": frozenset(
        {"end_image", "clip_vision_start_image", "clip_vision_end_image"}
    ),
    "WanFunInpaintToVideo": frozenset({"end_image", "clip_vision_output"}),
    "WanImageToVideo": frozenset({"clip_vision_output"}),
    "WanVideoImageToVideoEncode": frozenset({"clip_embeds", "end_image"}),
    "WanVaceToVideo": frozenset({"control_video", "control_masks", "reference_image"}),
}
"""Inputs that a node does not require, and neither do the models that it is used with."""

_PASSES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "ImageBatch": (("image1",), ("image2",)),
    "ImageStitch": (("image2",),),
    "LTXVAddGuide": (("positive", "negative", "latent"),),
    "LTXVImgToVideoInplace": (("latent",),),
    "ReferenceLatent": (("conditioning",),),
    "SetLatentNoiseMask": (("samples",),),
}
"""The inputs that take the place of a removed node's outputs: the first group that is present."""

_GROWS = re.compile(r"^(.+\.[A-Za-z_]*)(\d+)$")  # an item of an input list, such as "images.image2"
_ENCODES = re.compile("TextEncode")  # nodes that can encode a text without an image


def without(nodes: Graph, words: Collection[str]) -> Graph:
    """Return a graph without the parts that depend on these placeholders.

    An optional input is removed. A node that only adds something to an input and passes it on is
    bypassed. Everything else that depends on the placeholders is removed.
    """
    return _Cut(nodes, words).done()


def needed_files(nodes: Graph, saves: Collection[str], words: Collection[str]) -> frozenset[str]:
    """Return the placeholders without which a saving node would be removed.

    Without a first image there is no second one either.
    """
    return frozenset(
        word for word in words if not set(saves) <= without(nodes, _missing(word)).keys()
    )


def _missing(word: str) -> frozenset[str]:
    """Return the placeholders that requests only fill together with this one."""
    if word == IMAGES[0]:
        return frozenset({*IMAGES, "last_image", "mask"})
    return frozenset(IMAGES[IMAGES.index(word) :]) if word in IMAGES else frozenset({word})


class _Cut:
    """The removal of placeholders from a graph: the removed nodes and the replaced links."""

    def __init__(self, nodes: Graph, words: Collection[str]) -> None:
        self._nodes = dict(nodes)
        self._gone = {key for key, node in nodes.items() if names_in(node.inputs) & set(words)}
        self._instead: dict[tuple[str, int], JsonValue] = {}

    def done(self) -> Graph:
        changed = True
        while changed:
            changed = False
            for key in self._nodes:
                changed |= key not in self._gone and self._shrinks(key)
        return {
            key: replace(
                node, inputs={name: self._source(value) for name, value in node.inputs.items()}
            )
            for key, node in self._nodes.items()
            if key not in self._gone
        }

    def _shrinks(self, key: str) -> bool:
        """Examine one node again; return whether the graph changed."""
        node = self._nodes[key]
        lost = {name for name, value in node.inputs.items() if self._is_lost(value)}
        if not lost:
            return False
        if lost <= _optional_inputs(node, lost):
            kept = {name: value for name, value in node.inputs.items() if name not in lost}
            self._nodes[key] = replace(node, inputs=_renumbered(node.inputs, kept))
            return True
        for names in _PASSES.get(node.class_type, ()):
            if all(link_of(node.inputs.get(name)) for name in names) and not lost & set(names):
                for output, name in enumerate(names):
                    self._instead[key, output] = node.inputs[name]
                break
        self._gone.add(key)
        return True

    def _is_lost(self, value: JsonValue) -> bool:
        link = link_of(self._source(value))
        return link is not None and link[0] in self._gone

    def _source(self, value: JsonValue) -> JsonValue:
        while (link := link_of(value)) in self._instead:
            value = self._instead[link]
        return value


def _optional_inputs(node: Node, lost: AbstractSet[str]) -> set[str]:
    """Return the inputs of a node that may be missing, given the `lost` ones."""
    found = set(_SPARED.get(node.class_type, ()))
    left = {grown[1] for name in node.inputs.keys() - lost if (grown := _GROWS.match(name))}
    for name in lost:
        grown = _GROWS.match(name)
        if grown and (grown[1] in left or _ENCODES.search(node.class_type)):
            found.add(name)
    return found


def _renumbered(
    before: Mapping[str, JsonValue], kept: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return inputs with renumbered lists: servers require the first item before the second."""
    lists = dict[str, list[int]]()
    for name in before:
        if grown := _GROWS.match(name):
            lists.setdefault(grown[1], []).append(int(grown[2]))
    names: dict[str, str] = {}
    for stem, numbers in lists.items():
        own = (f"{stem}{number}" for number in sorted(numbers))
        there = [name for name in own if name in kept]
        names |= {
            name: f"{stem}{number}" for name, number in zip(there, sorted(numbers), strict=False)
        }
    return {names.get(name, name): value for name, value in kept.items()}
