"""Fills a ComfyUI template from a request: options, files, LoRAs, and the warm-up. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from pydantic import JsonValue

from backends.comfyui.workflow.graph.analysis import (
    Medium,
    frame_step_of,
    frames_for,
    plain,
    played_per_made,
    rate_of,
    to_grid,
)
from backends.comfyui.workflow.graph.edits import without
from backends.comfyui.workflow.graph.node_types import NumberRange
from backends.comfyui.workflow.graph.nodes import (
    FILES,
    IMAGES,
    WORDS,
    Asked,
    Graph,
    Node,
    link_of,
    substituted,
)
from backends.comfyui.workflow.loras import with_loras
from backends.comfyui.workflow.template import Template
from queueing.core.errors import ProblemKind, Rejected, problem
from queueing.core.requests import (
    Generation,
    LoraWeight,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
)

TINY: Mapping[str, int] = {"width": 64, "height": 64, "steps": 1, "seconds": 1, "fps": 1}
"""The smallest values to request. Every tested model could create this size."""

_OPTIONS = (
    "negative",
    "width",
    "height",
    "steps",
    "guidance",
    "sampler",
    "scheduler",
    "lora",
    "seconds",
    "fps",
    "lyrics",
    "voice",
    "speed",
    "instructions",
)
_MEDIA: Mapping[type[Asked], Medium] = {
    TextToImage: Medium.IMAGE,
    TextToVideo: Medium.VIDEO,
    TextToAudio: Medium.SOUND,
    TextToSpeech: Medium.SOUND,
}
_FEWEST_HALVES = 2  # two samplers share the steps


def fill(
    workflow: Template, request: Asked, *, prefix: str, files: Mapping[str, str] | None = None
) -> Graph:
    """Return the graph of a request. Raises `Rejected` for anything that the template cannot use.

    `prefix` is where the server saves the result. `files` are the server's names of the uploaded
    files, by placeholder. Sizes and frames are rounded to values that the nodes accept. Parts that
    depend on an absent file are removed.
    """
    files = files or {}
    _refuse_unsupported(workflow, request, files)
    values = {**_values(workflow, request), **files}
    nodes = without(workflow.nodes, workflow.placeholders & FILES - files.keys())
    nodes = with_loras(nodes, _loras(workflow, request))
    nodes = substituted(nodes, {word: values[word] for word in WORDS if word in values})
    saving: dict[str, JsonValue] = {"filename_prefix": prefix}
    return {
        key: replace(node, inputs={**node.inputs, **saving}) if key in workflow.saves else node
        for key, node in nodes.items()
    }


def warm_up(
    workflow: Template,
    *,
    seed: int,
    files: Mapping[str, str] | None = None,
    limits: Mapping[str, NumberRange],
) -> Graph:
    """Return the cheapest graph that loads everything the template uses and keeps no file.

    Use a new `seed` each time: the server answers an identical graph from its cache without loading
    anything. `limits` are the server's limits by placeholder.
    """
    least = dict(TINY)
    if "half_steps" in workflow.placeholders:
        least["steps"] = _FEWEST_HALVES
    tiny = {word: limits.get(word, NumberRange()).nearest(value) for word, value in least.items()}
    for side in ("width", "height"):
        tiny[side] = -(-tiny[side] // workflow.grid) * workflow.grid
    asked = {word: value for word, value in tiny.items() if word in workflow.options}
    frames = limits.get("frames", NumberRange()).nearest(1)
    least_work = replace(
        workflow, defaults={**workflow.defaults, **asked, "seed": seed, "frames": frames}
    )
    nothing = {Medium.VIDEO: TextToVideo, Medium.SOUND: TextToAudio}.get(
        workflow.medium, TextToImage
    )(prompt="", seed=seed)
    nodes = dict(fill(least_work, nothing, prefix="usher/warm-up", files=files))
    for key in workflow.saves:
        nodes[key] = _unsaved(nodes, nodes[key])
    return nodes


def fit_size(image: tuple[int, int], default: tuple[int, int]) -> tuple[int, int]:
    """Return a size with the image's aspect ratio and about as many pixels as the default size."""
    width, height = image
    scale = (default[0] * default[1] / (width * height)) ** 0.5
    return (
        min(max(round(width * scale), 64), 8192),
        min(max(round(height * scale), 64), 8192),
    )


# ---------------------------------------------------------------- what is asked for


def _refuse_unsupported(workflow: Template, request: Asked, files: Collection[str]) -> None:
    if _MEDIA[type(request)] is not workflow.medium:
        raise _unsupported(ProblemKind.UNABLE)
    for word in _OPTIONS:
        if getattr(request, word, None) not in {None, "", ()} and word not in workflow.options:
            raise _unsupported(ProblemKind.TAKES_NO, field=word)
    if isinstance(request, TextToImage):
        if request.count > 1 and "count" not in workflow.placeholders:
            raise _unsupported(ProblemKind.ONE_AT_A_TIME)
        if files and request.strength is not None and "strength" not in workflow.placeholders:
            raise _unsupported(ProblemKind.TAKES_NO, field="strength")
    _refuse_files(workflow, files)


def _refuse_files(workflow: Template, files: Collection[str]) -> None:
    missing = sorted(workflow.needs - set(files))
    if "image" in missing:
        raise _unsupported(ProblemKind.NEEDS_START)
    if missing:
        raise _unsupported(ProblemKind.NEEDS, field=missing[0])
    homeless = sorted(set(files) - workflow.placeholders)
    if not homeless:
        return
    if "image" in homeless:
        raise _unsupported(ProblemKind.NO_START)
    if homeless[0] in {"mask", "audio", "last_image"}:
        raise _unsupported(ProblemKind.NO_PLACE, field=homeless[0])
    most = len(workflow.placeholders.intersection((*IMAGES, "last_image")))
    raise _unsupported(ProblemKind.FEWER_IMAGES, count=most)


def _unsupported(what: ProblemKind, **values: str | int) -> Rejected:
    why = problem(what, **values)
    return Rejected(f"the workflow: {why}", problem=why)


def _loras(workflow: Template, request: Asked) -> tuple[LoraWeight, ...]:
    asked = request.lora if isinstance(request, Generation) else ()
    usual = workflow.defaults.get("lora")
    return asked or ((LoraWeight(name=str(usual)),) if usual else ())


# ---------------------------------------------------------------- its values


def _values(workflow: Template, request: Asked) -> dict[str, JsonValue]:
    """Return the value of every placeholder: the request's, or else the template's."""
    asked = request.model_dump(exclude_none=True, exclude=set(FILES))
    if isinstance(request, TextToSpeech):
        asked["prompt"] = request.text
    values: dict[str, JsonValue] = {
        "negative": "",
        "lyrics": "",
        "seed": 0,
        **workflow.defaults,
        **asked,
    }
    for side in ("width", "height"):
        if isinstance(pixels := values.get(side), int):
            values[side] = to_grid(pixels, workflow.grid)
    if isinstance(steps := values.get("steps"), int):
        values["half_steps"] = max((steps + 1) // 2, 1)
    values |= _timing(workflow, request, values)
    return values


def _timing(
    workflow: Template, request: Asked, values: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return consistent values for frames, seconds and frames per second."""
    rate, seconds = values.get("fps", rate_of(workflow.nodes)), values.get("seconds")
    found: dict[str, JsonValue] = {}
    if isinstance(rate, int | float):
        found["fps"] = plain(rate)
        if "frames" in workflow.placeholders:
            made = rate / played_per_made(workflow.nodes)  # generated frames per second
            frames = values.get("frames")
            if isinstance(seconds, int | float) and (
                frames is None or getattr(request, "seconds", None) is not None
            ):
                frames = seconds * made
            if isinstance(frames, int | float):
                whole = frames_for(frames, frame_step_of(workflow.nodes))
                return found | {"frames": whole, "seconds": plain(round(whole / made, 3))}
    if isinstance(seconds, int | float):
        found["seconds"] = plain(seconds)
    return found


# ---------------------------------------------------------------- nothing kept


def _unsaved(nodes: Graph, node: Node) -> Node:
    """Replace a saving node by one that runs its inputs without saving, if possible."""
    if (images := node.inputs.get("images")) is not None:
        return Node(class_type="PreviewImage", inputs={"images": images})
    if (audio := node.inputs.get("audio")) is not None:
        return Node(class_type="PreviewAudio", inputs={"audio": audio})
    link = link_of(node.inputs.get("video"))
    source = nodes.get(link[0]) if link else None
    if source is not None and link_of(source.inputs.get("images")):
        return Node(class_type="PreviewImage", inputs={"images": source.inputs["images"]})
    return node
