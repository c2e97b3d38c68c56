"""Sizes, frames and seconds in the steps that a graph's nodes take. Pure.

Servers do not refuse other numbers: they cut a film short, or fail when it is saved.
"""

import re
from collections.abc import Mapping, Sequence
from math import prod

from pydantic import JsonValue

from backends.comfyui.workflow.graph import Graph, Node, link_of, names_in, upstream_of
from backends.comfyui.workflow.words import PICTURES

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
_SIZED = re.compile(r"scale|resize|crop|decode", re.IGNORECASE)  # nodes behind which size is known
_BETWEEN = re.compile(r"VFI|interpolat", re.IGNORECASE)
_BEGINS = ("start_at_step", "start_step")
_ENDS = ("end_at_step", "end_step")
_LENGTHS = ("length", "num_frames", "frames_number", "video_frames")
_RATES = ("fps", "frame_rate")


def grid_of(nodes: Graph) -> int:
    """Return the number of pixels that widths and heights are multiples of."""
    kinds = {node.class_type for node in nodes.values()}
    sized = [node.class_type for node in nodes.values() if "width" in names_in(node.inputs)]
    coarse = max((_COARSE.get(kind, 1) for kind in kinds), default=1)
    if coarse > _GRID and _TWO_STAGES in kinds:
        coarse *= 2
    return max(coarse, max((_FINE.get(kind, _GRID) for kind in sized), default=_GRID))


def frame_step_of(nodes: Graph) -> int:
    """Return n where films have a multiple of n frames and one more; 1 for an unknown family."""
    holding = [node for node in nodes.values() if "frames" in names_in(node.inputs)]
    linked = [
        node
        for node in nodes.values()
        if any(link_of(node.inputs.get(name)) for name in _LENGTHS)  # to a number of its own
    ]
    steps = (
        max((_frame_step(n.class_type) for n in some), default=1) for some in (holding, linked)
    )
    return next((step for step in steps if step > 1), 1)


def rate_of(nodes: Graph) -> float | None:
    """Return the frames per second that a graph sets itself."""
    rates = [nodes[key].inputs.get(name) for key, name in _rated(nodes)]
    return next((float(rate) for rate in rates if isinstance(rate, int | float) and rate > 0), None)


def played_per_made(nodes: Graph) -> float:
    """Return how many frames a graph plays for each that its model makes: others lie between."""
    key = next((key for key, _ in _rated(nodes)), None)
    behind = [nodes[each] for each in upstream_of(nodes, key)] if key else []
    times = [node.inputs.get("multiplier") for node in behind if _BETWEEN.search(node.class_type)]
    return prod(many for many in times if isinstance(many, int | float) and many > 0)


def _rated(nodes: Graph) -> list[tuple[str, str]]:
    """Return the nodes and inputs that set the frames per second, as numbers or placeholders."""
    found = [(key, name) for key, node in nodes.items() for name in _RATES if name in node.inputs]
    return [(key, name) for key, name in found if not link_of(nodes[key].inputs[name])]


def planned_steps(nodes: Graph) -> dict[str, int]:
    """Return the steps that each sampler will make, 0 where its inputs do not tell."""
    return {
        key: _steps_of(nodes, node)
        for key, node in nodes.items()
        if "latent_image" in node.inputs or _samples(node)
    }


def to_grid(pixels: int, grid: int) -> int:
    """Return the multiple of the grid nearest to a length in pixels."""
    return max(round(pixels / grid), 1) * grid


def frames_for(frames: float, step: int) -> int:
    """Return a number of frames near this one that a family with this step can make."""
    return max(round(frames), 1) if step == 1 else max(round(frames / step), 1) * step + 1


def plain(number: float) -> int | float:
    """Return a whole number as such: inputs for whole numbers take no other."""
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
    """Return the steps of a schedule: a list of numbers, a number, or one part of another one."""
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
    """Return the nodes that encode a person's picture in whatever size it comes in."""
    return [
        key
        for key, node in nodes.items()
        if node.class_type.startswith("VAEEncode") and _as_it_came(nodes, node.inputs.get("pixels"))
    ]


def _as_it_came(nodes: Graph, value: JsonValue) -> bool:
    """Return whether an input is a picture that no node on its way has given a size."""
    todo, seen = [value], set[str]()
    while todo:
        link = link_of(todo.pop())
        node = nodes.get(link[0]) if link else None
        if link is None or node is None or link[0] in seen or _SIZED.search(node.class_type):
            continue
        seen.add(link[0])
        if names_in(node.inputs) & {*PICTURES}:
            return True
        todo += node.inputs.values()
    return False
