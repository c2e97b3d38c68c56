"""Fills a ComfyUI template from a request: options, pictures, LoRAs, and the warm-up. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from pydantic import JsonValue

from backends.comfyui.workflow.graph import Graph, Node, bypass, link_of, names_in, substituted
from backends.comfyui.workflow.limits import NumberRange
from backends.comfyui.workflow.template import WORDS, Workflow
from queueing.core.errors import Rejected
from queueing.core.problems import What, problem
from queueing.core.requests import TextToImage

TINY = {"width": 64, "height": 64, "steps": 1}  # every model tried could draw at that size


def fill(
    workflow: Workflow,
    request: TextToImage,
    *,
    prefix: str,
    picture: str | None = None,
) -> Graph:
    """Return the graph of a request; raise `Rejected` for options without a placeholder.

    `prefix` is where the server saves the result, `picture` the server's name of the uploaded
    picture. Sizes are rounded to the template's grid.
    """
    _refuse_unsupported(workflow, request, has_picture=picture is not None)
    values = _merged(workflow, request) | {"picture": picture}
    nodes = workflow.nodes if values["lora"] else _without_lora(workflow.nodes)
    nodes = substituted(nodes, values)
    saving: dict[str, JsonValue] = {"filename_prefix": prefix}
    return {
        key: replace(node, inputs={**node.inputs, **saving}) if key in workflow.saves else node
        for key, node in nodes.items()
    }


def warm_up(
    workflow: Workflow, *, seed: int, picture: str | None = None, limits: Mapping[str, NumberRange]
) -> Graph:
    """Return the cheapest graph that loads everything the template uses and keeps no file.

    Use a new `seed` each time: the server answers an identical graph from its cache and loads
    nothing. `limits` are the server's limits by word.
    """
    tiny = {word: limits.get(word, NumberRange()).nearest(least) for word, least in TINY.items()}
    for side in ("width", "height"):
        tiny[side] = -(-tiny[side] // workflow.grid) * workflow.grid
    request = TextToImage.model_validate(
        {"prompt": "", "seed": seed, **{k: v for k, v in tiny.items() if k in workflow.options}}
    )
    nodes = dict(fill(workflow, request, prefix="usher/warm-up", picture=picture))
    for key in workflow.saves:
        if "images" in nodes[key].inputs:
            images = nodes[key].inputs["images"]
            nodes[key] = Node(class_type="PreviewImage", inputs={"images": images})
    return nodes


def fit_size(picture: tuple[int, int], default: tuple[int, int]) -> tuple[int, int]:
    """Return a size of the picture's shape with about as many pixels as the default size."""
    width, height = picture
    scale = (default[0] * default[1] / (width * height)) ** 0.5
    return (
        min(max(round(width * scale), 64), 8192),
        min(max(round(height * scale), 64), 8192),
    )


def _refuse_unsupported(workflow: Workflow, request: TextToImage, *, has_picture: bool) -> None:
    for word in ("negative", "width", "height", "steps", "guidance", "lora"):
        if getattr(request, word) not in {None, "", ()} and word not in workflow.placeholders:
            raise _unsupported(What.TAKES_NO, field=word)
    if request.count > 1 and "count" not in workflow.placeholders:
        raise _unsupported(What.ONE_AT_A_TIME)
    if has_picture and not workflow.takes_picture:
        raise _unsupported(What.NO_START)
    if workflow.takes_picture and not has_picture:
        raise _unsupported(What.NEEDS_START)
    if has_picture and request.strength is not None and "strength" not in workflow.placeholders:
        raise _unsupported(What.TAKES_NO, field="strength")


def _unsupported(what: What, **values: str) -> Rejected:
    why = problem(what, **values)
    return Rejected(f"the workflow: {why}", problem=why)


def _merged(workflow: Workflow, request: TextToImage) -> dict[str, JsonValue]:
    """Return the value of every word: the request's, otherwise the template's."""
    values = workflow.defaults.model_dump() | request.model_dump(exclude_none=True)
    values["negative"] = values["negative"] or ""
    for side in ("width", "height"):
        if values[side] is not None:
            values[side] = round(values[side] / workflow.grid) * workflow.grid
    named = request.lora or workflow.defaults.lora
    values["lora"] = named[0].name if named else None
    return {word: values[word] for word in WORDS if word in values}


def _without_lora(nodes: Graph) -> Graph:
    """Remove the LoRA loaders and connect their inputs to their outputs' readers."""
    links = {
        (key, index): node.inputs[source]
        for key, node in nodes.items()
        if "lora" in names_in(node.inputs)
        for index, source in enumerate(bypass(node))
    }
    gone = {key for key, _ in links}

    def relink(value: JsonValue) -> JsonValue:
        while (link := link_of(value)) in links:
            value = links[link]
        return value

    return {
        key: replace(node, inputs={name: relink(value) for name, value in node.inputs.items()})
        for key, node in nodes.items()
        if key not in gone
    }
