"""ComfyUI workflow templates: load one, say what it needs, fill it from a request. Pure.

A template is a graph in ComfyUI's API format whose inputs hold placeholders (docs/workflows.md).
Values are set in the parsed graph, never in JSON text, so nothing a person writes can change it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from pydantic import JsonValue, ValidationError

from queueing.errors import BadModel, Rejected
from queueing.requests import TextToImage

Graph = Mapping[str, "Node"]

_PLACEHOLDER = re.compile(r"\{\{ *([a-z][a-z0-9_]*) *(?::([^{}]*))?\}\}")
_FILE = re.compile(r"\.(safetensors|sft|ckpt|gguf|pth?|bin|onnx)$", re.IGNORECASE)

# What a request can fill, and how people call it. Any other placeholder is the operator's own.
WORDS: Mapping[str, str] = {
    "prompt": "prompt",
    "negative": "negative prompt",
    "width": "width",
    "height": "height",
    "steps": "number of steps",
    "seed": "seed",
    "count": "number of pictures",
    "guidance": "guidance",
    "strength": "strength",
    "lora": "LoRA",
    "picture": "picture to start from",
}
_NEEDS_DEFAULT = ("width", "height", "steps", "guidance", "strength")
_NO_DEFAULT = ("prompt", "seed", "count", "picture")

# Without a LoRA its loader is taken out; its outputs are then these inputs of it.
_PASSES_ON: Mapping[str, tuple[str, ...]] = {
    "LoraLoader": ("model", "clip"),
    "LoraLoaderModelOnly": ("model",),
}
_GRID = {"EmptyLatentImage": 8}  # the server rounds nothing; 16 is right for all other nodes known
_WARM_UP_PIXELS = 64  # the smallest side every model tried could draw


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A node of a graph; a link is a list of a node's id and an output's index."""

    class_type: str
    inputs: Mapping[str, JsonValue]


@dataclass(frozen=True, kw_only=True, slots=True)
class Workflow:
    """A template that is known to be sound, with the operator's values set.

    `nodes` still hold the placeholders of `WORDS`; `defaults` fill those a request leaves open.
    `saves` are the ids of the nodes that write files.
    """

    name: str
    nodes: Graph
    placeholders: frozenset[str]
    defaults: TextToImage
    saves: tuple[str, ...]

    @property
    def options(self) -> frozenset[str]:
        """The fields of a request this template can honour, the prompt apart."""
        return self.placeholders & TextToImage.model_fields.keys() - {"prompt"}

    @property
    def takes_picture(self) -> bool:
        """Whether a picture to start from is needed."""
        return "picture" in self.placeholders

    @property
    def upscales(self) -> bool:
        """Whether it only makes a picture larger: it has no place for a prompt."""
        return self.takes_picture and "prompt" not in self.placeholders

    @property
    def lora_loader(self) -> tuple[str, str] | None:
        """The type of node and the input that take the LoRA, None without a place for one."""
        for node in self.nodes.values():
            for name, value in node.inputs.items():
                if "lora" in _names(value):
                    return node.class_type, name
        return None

    @property
    def grid(self) -> int:
        """What widths and heights are multiples of, in pixels."""
        sized = [node for node in self.nodes.values() if "width" in _names(node.inputs)]
        return max((_GRID.get(node.class_type, 16) for node in sized), default=16)

    @property
    def files(self) -> frozenset[tuple[str, str]]:
        """The model files it loads, as (input, file name): equal files mean equal memory.

        Where no name looks like a file: all texts set in it.
        """
        return files_of(self.nodes) or frozenset(
            pair for pair in _inputs_with_text(self.nodes) if not _names(pair[1])
        )


def parse_workflow(text: str, *, name: str) -> Graph:
    """Return the nodes of a template file; raise `BadModel` with file and node for anything else."""
    try:
        data: JsonValue = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadModel(f"{name}: not JSON ({error})") from None
    if not isinstance(data, dict) or not data:
        raise BadModel(f"{name}: not a workflow: an object with nodes is expected")
    if isinstance(data.get("nodes"), list):
        raise BadModel(
            f"{name}: this is the editor's own format; save it with “Export (API)” in ComfyUI"
        )
    nodes = {key: _node(f"{name}: node {key}", value) for key, value in data.items()}
    for key, node in nodes.items():
        for link in map(_link, node.inputs.values()):
            if link and link[0] not in nodes:
                raise BadModel(f"{name}: node {key}: linked to node {link[0]}, which is not there")
    return nodes


def prepare(nodes: Graph, values: Mapping[str, JsonValue], *, name: str) -> Workflow:
    """Check a parsed template and set the operator's `values` in it; raise `BadModel`.

    Values for placeholders of `WORDS` become defaults; those for unknown names are left to the
    caller, which may have a second template that uses them.
    """
    defaults = _defaults(nodes, name) | dict(values)
    _check_values(defaults, name)
    used = words_in(nodes)
    if not used & {"prompt", "picture"}:
        raise BadModel(f"{name}: no node holds {{{{prompt}}}}")
    for key, node in nodes.items():
        for word in sorted(_names(node.inputs)):
            _check_placeholder(f"{name}: node {key}", node, word, defaults)
    saves = tuple(key for key, node in nodes.items() if "filename_prefix" in node.inputs)
    if not saves:
        raise BadModel(f"{name}: no output node: nothing like SaveImage has a filename_prefix")
    return Workflow(
        name=name,
        nodes=_substituted(nodes, {k: v for k, v in defaults.items() if k not in WORDS}),
        placeholders=used & WORDS.keys(),
        defaults=_request(name, {k: v for k, v in defaults.items() if k in used & WORDS.keys()}),
        saves=saves,
    )


def fill(
    workflow: Workflow,
    request: TextToImage,
    *,
    prefix: str,
    picture: str | None = None,
) -> Graph:
    """Return the graph of a request; raise `Rejected` for options the template has no place for.

    `prefix` is where the server saves the result, `picture` the server's name of the uploaded
    picture. Sizes are rounded to the template's grid.
    """
    _refuse_unsupported(workflow, request, has_picture=picture is not None)
    values = _merged(workflow, request) | {"picture": picture}
    nodes = workflow.nodes if values["lora"] else _without_lora(workflow.nodes)
    nodes = _substituted(nodes, values)
    saving: dict[str, JsonValue] = {"filename_prefix": prefix}
    return {
        key: replace(node, inputs={**node.inputs, **saving}) if key in workflow.saves else node
        for key, node in nodes.items()
    }


def warm_up(workflow: Workflow, *, seed: int, picture: str | None = None) -> Graph:
    """Return the cheapest graph that loads everything the template uses and keeps no file.

    A new `seed` each time: an identical graph is answered from the server's cache and loads
    nothing.
    """
    tiny = {"width": _WARM_UP_PIXELS, "height": _WARM_UP_PIXELS, "steps": 1}
    request = TextToImage.model_validate(
        {"prompt": "", "seed": seed, **{k: v for k, v in tiny.items() if k in workflow.options}}
    )
    nodes = dict(fill(workflow, request, prefix="usher/warm-up", picture=picture))
    for key in workflow.saves:
        if "images" in nodes[key].inputs:
            images = nodes[key].inputs["images"]
            nodes[key] = Node(class_type="PreviewImage", inputs={"images": images})
    return nodes


def as_json(graph: Graph) -> dict[str, JsonValue]:
    """Return a graph as the server takes it."""
    return {
        key: {"class_type": node.class_type, "inputs": dict(node.inputs)}
        for key, node in graph.items()
    }


def files_of(graph: Graph) -> frozenset[tuple[str, str]]:
    """Return the model files a graph loads, as (input, file name)."""
    return frozenset(pair for pair in _inputs_with_text(graph) if _FILE.search(pair[1]))


def words_in(graph: Graph) -> frozenset[str]:
    """Return the names of all placeholders of a graph."""
    return frozenset[str]().union(*(_names(node.inputs) for node in graph.values()))


def blame(workflow: Workflow, node: str, input_name: str) -> frozenset[str]:
    """Return the placeholders that filled an input, to tell a person's mistake from ours."""
    if node not in workflow.nodes:
        return frozenset()
    return _names(workflow.nodes[node].inputs.get(input_name))


def fit_size(picture: tuple[int, int], default: tuple[int, int]) -> tuple[int, int]:
    """Return a size of the picture's shape with about as many pixels as the default one."""
    width, height = picture
    scale = (default[0] * default[1] / (width * height)) ** 0.5
    return (
        min(max(round(width * scale), 64), 8192),
        min(max(round(height * scale), 64), 8192),
    )


# ---------------------------------------------------------------- reading templates


def _node(where: str, value: JsonValue) -> Node:
    if not isinstance(value, dict):
        raise BadModel(f"{where}: not a node")
    class_type, inputs = value.get("class_type"), value.get("inputs")
    if not isinstance(class_type, str) or not class_type:
        raise BadModel(f"{where}: class_type is missing")
    if not isinstance(inputs, dict):  # the server takes such a node, and its worker may die of it
        raise BadModel(f"{where} ({class_type}): inputs are missing")
    for text in _texts(inputs):
        if "{{" in _PLACEHOLDER.sub("", text):
            raise BadModel(f"{where} ({class_type}): {text!r} holds a broken placeholder")
    return Node(class_type=class_type, inputs=inputs)


def _defaults(nodes: Graph, name: str) -> dict[str, JsonValue]:
    """Return the defaults written in the placeholders themselves."""
    defaults: dict[str, JsonValue] = {}
    for key, node in nodes.items():
        for found in _placeholders(node.inputs):
            word, text = found[1], found[2]
            if text is None:
                continue
            if defaults.setdefault(word, text) != text:
                raise BadModel(f"{name}: node {key}: {{{{{word}}}}} has two different defaults")
    return {word: text if word in WORDS else _scalar(str(text)) for word, text in defaults.items()}


def _scalar(text: str) -> JsonValue:
    """Read a number or boolean as such, and anything else as text."""
    try:
        value: JsonValue = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float) else text


def _check_placeholder(
    where: str, node: Node, word: str, defaults: Mapping[str, JsonValue]
) -> None:
    shown = f"{where} ({node.class_type}): {{{{{word}}}}}"
    if word not in WORDS and word not in defaults:
        near = get_close_matches(word, WORDS, n=1)
        hint = f"; did you mean {{{{{near[0]}}}}}?" if near else ""
        raise BadModel(f"{shown} is unknown: set values.{word}, or give it a default{hint}")
    if word in _NEEDS_DEFAULT and word not in defaults:
        raise BadModel(f"{shown} needs a default, as in {{{{{word}:1}}}}, or values.{word}")
    if word == "lora" and word not in defaults and not _bypass(node):
        known = " or ".join(_PASSES_ON)
        raise BadModel(f"{shown} without a default belongs into a {known} with linked inputs")


def _check_values(values: Mapping[str, JsonValue], name: str) -> None:
    for word, value in values.items():
        if word in _NO_DEFAULT:
            raise BadModel(f"{name}: {word} comes with each request and takes no default")
        if not isinstance(value, str | int | float) or "{{" in str(value):
            raise BadModel(f"{name}: values.{word} must be a text or a number")


def _request(name: str, defaults: Mapping[str, JsonValue]) -> TextToImage:
    try:
        return TextToImage.model_validate({"prompt": "", **defaults})
    except ValidationError as error:
        first = error.errors()[0]
        raise BadModel(f"{name}: default of {{{{{first['loc'][0]}}}}}: {first['msg']}") from None


# ---------------------------------------------------------------- filling


def _refuse_unsupported(workflow: Workflow, request: TextToImage, *, has_picture: bool) -> None:
    for word in ("negative", "width", "height", "steps", "guidance", "lora"):
        if getattr(request, word) not in {None, ""} and word not in workflow.placeholders:
            raise _unsupported(f"takes no {WORDS[word]}")
    if request.count > 1 and "count" not in workflow.placeholders:
        raise _unsupported("draws one picture at a time")
    if has_picture and not workflow.takes_picture:
        raise _unsupported("cannot start from a picture")
    if workflow.takes_picture and not has_picture:
        raise _unsupported("needs a picture to start from")
    if has_picture and request.strength is not None and "strength" not in workflow.placeholders:
        raise _unsupported("takes no strength")


def _unsupported(what: str) -> Rejected:
    return Rejected(f"the workflow {what}", user_text=f"This model {what}.")


def _merged(workflow: Workflow, request: TextToImage) -> dict[str, JsonValue]:
    """Return the value of every word: the request's, or else the template's."""
    values = workflow.defaults.model_dump() | request.model_dump(exclude_none=True)
    values["negative"] = values["negative"] or ""
    for side in ("width", "height"):
        if values[side] is not None:
            values[side] = round(values[side] / workflow.grid) * workflow.grid
    return {word: values[word] for word in WORDS if word in values}


def _without_lora(nodes: Graph) -> Graph:
    """Take out the LoRA loaders and link what they fed to what fed them."""
    links = {
        (key, index): node.inputs[source]
        for key, node in nodes.items()
        if "lora" in _names(node.inputs)
        for index, source in enumerate(_bypass(node))
    }
    gone = {key for key, _ in links}

    def relink(value: JsonValue) -> JsonValue:
        while (link := _link(value)) in links:
            value = links[link]
        return value

    return {
        key: replace(node, inputs={name: relink(value) for name, value in node.inputs.items()})
        for key, node in nodes.items()
        if key not in gone
    }


def _bypass(node: Node) -> tuple[str, ...]:
    """Return the linked inputs that stand for the node's outputs when it is taken out."""
    sources = _PASSES_ON.get(node.class_type, ())
    return sources if all(_link(node.inputs.get(source)) for source in sources) else ()


def _substituted(nodes: Graph, values: Mapping[str, JsonValue]) -> Graph:
    return {
        key: replace(
            node, inputs={name: _fill_in(value, values) for name, value in node.inputs.items()}
        )
        for key, node in nodes.items()
    }


def _fill_in(value: JsonValue, values: Mapping[str, JsonValue]) -> JsonValue:
    """Set values in one pass, so that text which looks like a placeholder stays text."""
    match value:
        case str():
            whole = _PLACEHOLDER.fullmatch(value)
            if whole and whole[1] in values:
                return values[whole[1]]
            return _PLACEHOLDER.sub(
                lambda found: str(values[found[1]]) if found[1] in values else found[0], value
            )
        case list():
            return [_fill_in(item, values) for item in value]
        case dict():
            return {key: _fill_in(item, values) for key, item in value.items()}
        case _:
            return value


# ---------------------------------------------------------------- looking into values


def _link(value: JsonValue) -> tuple[str, int] | None:
    match value:
        case [str(key), int(index)]:
            return key, index
        case _:
            return None


def _texts(value: JsonValue | Mapping[str, JsonValue]) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case Mapping():
            for item in value.values():
                yield from _texts(item)


def _inputs_with_text(graph: Graph) -> Iterator[tuple[str, str]]:
    for node in graph.values():
        for name, value in node.inputs.items():
            if isinstance(value, str):
                yield name, value


def _placeholders(value: JsonValue | Mapping[str, JsonValue]) -> Iterator[re.Match[str]]:
    for text in _texts(value):
        yield from _PLACEHOLDER.finditer(text)


def _names(value: JsonValue | Mapping[str, JsonValue]) -> frozenset[str]:
    return frozenset(found[1] for found in _placeholders(value))
