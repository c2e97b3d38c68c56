"""What a graph creates, loads and saves, and which output sizes it supports. Pure.

Servers do not reject unsupported sizes: they shorten a video, or fail when they save it.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from math import prod

from pydantic import JsonValue

from backends.comfyui.workflow.graph.nodes import (
    IMAGES,
    Graph,
    Node,
    files_of,
    link_of,
    names_in,
    texts_by_input,
    upstream_of,
    words_in,
)
from backends.common.model_names import comparable
from queueing.core.requests import Capability

_GRID = 16
_FINE: Mapping[str, int] = {"EmptyLatentImage": 8}
_COARSE: Mapping[str, int] = {
    "EmptyHiDreamO1LatentImage": 32,
    "EmptyLTXVLatentVideo": 32,
    "LTXVImgToVideo": 32,
    "Wan22ImageToVideoLatent": 32,
}
_TWO_STAGES = "LTXVLatentUpsampler"  # the first stage works at half the size
_FRAME_STEPS = (
    (re.compile(r"LTX"), 8),
    (re.compile(r"CosmosPredict2"), 4),
    (re.compile(r"Cosmos"), 8),
    (re.compile(r"Mochi"), 6),
    (re.compile(r"Wan|Hunyuan|CogVideo|Kandinsky"), 4),
)
_SIZED = re.compile(r"scale|resize|crop|decode", re.IGNORECASE)  # nodes whose output size is known
_BETWEEN = re.compile(r"VFI|interpolat", re.IGNORECASE)
_BEGINS = ("start_at_step", "start_step")
_ENDS = ("end_at_step", "end_step")
_LENGTHS = ("length", "num_frames", "frames_number", "video_frames")
_RATES = ("fps", "frame_rate")


def grid_of(nodes: Graph) -> int:
    """Return the number of pixels by which widths and heights must be divisible."""
    kinds = {node.class_type for node in nodes.values()}
    sized = [node.class_type for node in nodes.values() if "width" in names_in(node.inputs)]
    coarse = max((_COARSE.get(kind, 1) for kind in kinds), default=1)
    if coarse > _GRID and _TWO_STAGES in kinds:
        coarse *= 2
    return max(coarse, max((_FINE.get(kind, _GRID) for kind in sized), default=_GRID))


def frame_step_of(nodes: Graph) -> int:
    """Return n if videos must have k * n + 1 frames; 1 for an unknown family."""
    holding = [node for node in nodes.values() if "frames" in names_in(node.inputs)]
    linked = [
        node
        for node in nodes.values()
        if any(link_of(node.inputs.get(name)) for name in _LENGTHS)  # to a separate number node
    ]
    steps = (
        max((_frame_step(n.class_type) for n in some), default=1) for some in (holding, linked)
    )
    return next((step for step in steps if step > 1), 1)


def rate_of(nodes: Graph) -> float | None:
    """Return the frames per second that a graph sets, or None."""
    rates = [nodes[key].inputs.get(name) for key, name in _rated(nodes)]
    return next((float(rate) for rate in rates if isinstance(rate, int | float) and rate > 0), None)


def played_per_made(nodes: Graph) -> float:
    """Return how many frames a graph plays per generated frame; interpolation adds frames."""
    key = next((key for key, _ in _rated(nodes)), None)
    behind = [nodes[each] for each in upstream_of(nodes, key)] if key else []
    times = [node.inputs.get("multiplier") for node in behind if _BETWEEN.search(node.class_type)]
    return prod(many for many in times if isinstance(many, int | float) and many > 0)


def _rated(nodes: Graph) -> list[tuple[str, str]]:
    """Return the nodes and inputs that set the frames per second, as numbers or placeholders."""
    found = [(key, name) for key, node in nodes.items() for name in _RATES if name in node.inputs]
    return [(key, name) for key, name in found if not link_of(nodes[key].inputs[name])]


def planned_steps(nodes: Graph) -> dict[str, int]:
    """Return the planned steps of each sampler; 0 if its inputs do not show them."""
    return {
        key: _steps_of(nodes, node)
        for key, node in nodes.items()
        if "latent_image" in node.inputs or _samples(node)
    }


def to_grid(pixels: int, grid: int) -> int:
    """Round a length in pixels to the nearest multiple of the grid."""
    return max(round(pixels / grid), 1) * grid


def frames_for(frames: float, step: int) -> int:
    """Return the nearest number of frames that a family with this step can make."""
    return max(round(frames), 1) if step == 1 else max(round(frames / step), 1) * step + 1


def plain(number: float) -> int | float:
    """Return a whole number as an int, because integer inputs accept nothing else."""
    return int(number) if float(number).is_integer() else number


def _samples(node: Node) -> bool:
    return "Sampler" in node.class_type and "steps" in node.inputs


def _steps_of(nodes: Graph, sampler: Node) -> int:
    steps = _whole(sampler.inputs.get("steps"))
    if steps is not None:
        last, first = (_first_whole(sampler, names) for names in (_ENDS, _BEGINS))
        end = steps if last is None or last < 0 else min(last, steps)
        return max(end - max(first or 0, 0), 0)
    return _sigmas(nodes, link_of(sampler.inputs.get("sigmas")))


def _sigmas(nodes: Graph, link: tuple[str, int] | None) -> int:
    """Return a schedule's steps, given as a list of numbers, a number, or one part of a split."""
    source = nodes.get(link[0]) if link else None
    if link is None or source is None:
        return 0
    sigmas, split = source.inputs.get("sigmas"), _whole(source.inputs.get("step"))
    if isinstance(sigmas, str):
        return sigmas.count(",")
    if split is not None:
        return max(_sigmas(nodes, link_of(sigmas)) - split, 0) if link[1] else split
    return _whole(source.inputs.get("steps")) or 0


def _first_whole(node: Node, names: Sequence[str]) -> int | None:
    found = (_whole(node.inputs.get(name)) for name in names)
    return next((number for number in found if number is not None), None)


def _whole(value: JsonValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _frame_step(kind: str) -> int:
    return next((step for names, step in _FRAME_STEPS if names.search(kind)), 1)


def unscaled(nodes: Graph) -> Sequence[str]:
    """Return the nodes that encode a person's image at its original size."""
    return [
        key
        for key, node in nodes.items()
        if ("vae" in node.inputs or node.class_type.startswith("VAEEncode"))
        and _is_unresized(nodes, node.inputs.get("pixels"))
    ]


def _is_unresized(nodes: Graph, value: JsonValue) -> bool:
    """Return whether an input is an image that no earlier node has resized."""
    todo, seen = [value], set[str]()
    while todo:
        link = link_of(todo.pop())
        node = nodes.get(link[0]) if link else None
        if link is None or node is None or link[0] in seen or _SIZED.search(node.class_type):
            continue
        seen.add(link[0])
        if names_in(node.inputs) & {*IMAGES}:
            return True
        todo += node.inputs.values()
    return False


class Medium(StrEnum):
    """What a graph saves. If it saves several kinds, the first in this order counts."""

    VIDEO = "video"
    SOUND = "sound"
    IMAGE = "image"


_VIDEO = re.compile(r"video|video|movie|webm|mp4|animat|gif|vhs", re.IGNORECASE)
_SOUND = re.compile(r"audio|sound|music|speech|voice|mp3|flac|opus|wav", re.IGNORECASE)
_SPEAKS = re.compile(r"tts|speech|kokoro|chatterbox|vibevoice", re.IGNORECASE)
_REFERS = re.compile(
    r"referencelatent|imageedit|kontext|inpaintmodelconditioning|instructpixtopix", re.IGNORECASE
)
_BESIDES = re.compile(r"latent|text|string|glb|mesh", re.IGNORECASE)

_ABLE: Mapping[Medium, tuple[Capability, Capability]] = {
    # without and with an image
    Medium.VIDEO: (Capability.TEXT_TO_VIDEO, Capability.IMAGE_TO_VIDEO),
    Medium.IMAGE: (Capability.TEXT_TO_IMAGE, Capability.IMAGE_TO_IMAGE),
}


def saves_in(nodes: Graph) -> tuple[str, ...]:
    """Return the ids of the nodes that write files."""
    return tuple(
        key
        for key, node in nodes.items()
        if "filename_prefix" in node.inputs and node.inputs.get("save_output") is not False
    )


def medium_of(nodes: Graph, saves: Collection[str]) -> Medium:
    """Return what a graph creates. A saving node of an unknown type counts as saving images."""
    made = {_saved_by(nodes[key].class_type) for key in saves}
    return next((medium for medium in Medium if medium in made), Medium.IMAGE)


def shows(nodes: Graph, saves: Collection[str]) -> bool:
    """Return whether a chat can show any saved file; not so latents, texts and shapes."""
    return any(_saved_by(nodes[key].class_type) for key in saves)


def edits(nodes: Graph) -> bool:
    """Return whether a graph edits its images, rather than only starting from them.

    An image to start from needs a strength below 1, because at a fixed strength of 1 nothing of it
    remains.
    """
    words = words_in(nodes)
    if not words >= {"image", "prompt"}:
        return False
    if words & {*IMAGES[1:], "mask"}:
        return True
    if "strength" in words:
        return False
    refers = any(_REFERS.search(node.class_type) for node in nodes.values())
    return refers or not any(map(_starts_late, nodes.values()))


def abilities_of(
    nodes: Graph, medium: Medium, needs: Collection[str], *, prompted: bool
) -> frozenset[Capability]:
    """Return what a graph supports; `needs` are the files it requires."""
    words = words_in(nodes)
    if medium is Medium.SOUND:
        speaks = "voice" in words or any(_SPEAKS.search(n.class_type) for n in nodes.values())
        return frozenset({Capability.TEXT_TO_SPEECH if speaks else Capability.TEXT_TO_AUDIO})
    if medium is Medium.IMAGE and "image" in words and not prompted:
        return frozenset({Capability.UPSCALE})
    plain, starting = _ABLE[medium]
    found = set() if needs else {plain}
    if "image" in words and "mask" not in needs:
        found.add(starting)
    if medium is Medium.IMAGE and edits(nodes):
        found.add(Capability.IMAGE_EDIT)
    return frozenset(found)


def _saved_by(class_type: str) -> Medium | None:
    if _VIDEO.search(class_type):
        return Medium.VIDEO
    if _SOUND.search(class_type):
        return Medium.SOUND
    return None if _BESIDES.search(class_type) else Medium.IMAGE


def _starts_late(node: Node) -> bool:
    """Return whether a sampler skips its first steps, which preserves part of its input."""
    denoise, begins = node.inputs.get("denoise"), node.inputs.get("start_at_step")
    if isinstance(denoise, int | float) and denoise < 1:
        return True
    return isinstance(begins, int | float) and begins > 0


Marks = frozenset[tuple[str, str]]

PLAIN = frozenset(
    {
        "CreateVideo",
        "EmptyImage",
        "GetImageSize",
        "GetVideoComponents",
        "ImageBatch",
        "ImageBlend",
        "ImageBlur",
        "ImageCrop",
        "ImageFlip",
        "ImageFromBatch",
        "ImageInvert",
        "ImagePadForOutpaint",
        "ImageQuantize",
        "ImageRotate",
        "ImageScale",
        "ImageScaleBy",
        "ImageScaleToMaxDimension",
        "ImageScaleToTotalPixels",
        "ImageSharpen",
        "LoadAudio",
        "LoadImage",
        "LoadImageMask",
        "LoadImageOutput",
        "LoadVideo",
        "PreviewAudio",
        "PreviewImage",
        "PrimitiveBoolean",
        "PrimitiveFloat",
        "PrimitiveInt",
        "PrimitiveString",
        "RepeatImageBatch",
        "SaveAnimatedPNG",
        "SaveAnimatedWEBP",
        "SaveAudio",
        "SaveAudioMP3",
        "SaveAudioOpus",
        "SaveImage",
        "SaveVideo",
        "SaveWEBM",
    }
)
"""ComfyUI's own nodes that process images, videos, sounds and numbers without a model. Any other
node may load one.
"""

_KIND = "class_type"


def is_plain(marks: Marks) -> bool:
    """Return whether a graph with these marks loads no model."""
    return all(text in PLAIN for name, text in marks if name == _KIND)


def all_marks(graph: Graph) -> Marks:
    """Return every text set in a graph, in a comparable form, and its node types."""
    return _comparable(texts_by_input(graph)) | frozenset(
        (_KIND, node.class_type) for node in graph.values()
    )


def marks_of(graph: Graph, saves: Collection[str]) -> Marks:
    """Return the texts that distinguish a template's models from other models.

    These are the names of the files that it loads, and for loaders without a file name their other
    texts, such as a short name or a folder. A template without any of these is identified by all
    texts that are the same in each of its prompts. Values set by Usher are ignored, and so are the
    nodes that it removes or replaces: `saves` and LoRA loaders.
    """
    kept = {
        key: node
        for key, node in graph.items()
        if key not in saves and "lora" not in names_in(node.inputs)
    }
    found = frozenset[tuple[str, str]]().union(*map(loaded_by, kept.values()))
    return found or frozenset(mark for mark in all_marks(kept) if not names_in(mark[1]))


def loaded_by(node: Node) -> Marks:
    """Return the files that a node names, or its other texts if it looks like a loader."""
    alone = {"": node}
    named = files_of(alone)
    if named or node.class_type in PLAIN or "load" not in node.class_type.casefold():
        return _comparable(named)
    return _comparable(mark for mark in texts_by_input(alone) if not names_in(mark[1]))


def _comparable(texts: Iterable[tuple[str, str]]) -> Marks:
    """Return marks that are equal on servers with different separators."""
    return frozenset((name, comparable(text)) for name, text in texts)
