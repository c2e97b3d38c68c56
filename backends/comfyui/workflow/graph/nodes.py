"""ComfyUI node graphs in its API format, and the placeholders in their inputs. Pure.

Values are set in the parsed graph, never in JSON text, so a person's text cannot change the graph.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from pydantic import JsonValue

from queueing.core.requests import (
    File,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
)

Graph = Mapping[str, "Node"]

_PLACEHOLDER = re.compile(r"(?<!\{)\{\{ *([a-z][a-z0-9_]*) *(?::([^{}]*))?\}\}")
_BRACES = re.compile(r"\{{3,}")  # text, as emphasis in prompts for other programs
_FILE = re.compile(r"\.(safetensors|sft|ckpt|gguf|pth?|bin|onnx)$", re.IGNORECASE)

_DEEPEST = 50

PASSES_ON = ("model", "clip")
"""The inputs of a LoRA loader that take the place of its outputs when it is removed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A node of a graph; a link is a list of a node id and an output index.

    `title` is its name in ComfyUI's editor, which servers ignore.
    """

    class_type: str
    inputs: Mapping[str, JsonValue]
    title: str = ""


def as_json(graph: Graph) -> dict[str, JsonValue]:
    """Return a graph as the JSON that the server expects."""
    return {
        key: {"class_type": node.class_type, "inputs": dict(node.inputs)}
        for key, node in graph.items()
    }


def files_of(graph: Graph) -> frozenset[tuple[str, str]]:
    """Return the model files a graph loads, as (input, file name)."""
    return frozenset(pair for pair in texts_by_input(graph) if is_model_file(pair[1]))


def is_model_file(name: str) -> bool:
    """Return whether a name is that of a model file."""
    return bool(_FILE.search(name))


def words_in(graph: Graph) -> frozenset[str]:
    """Return the names of all placeholders of a graph."""
    return frozenset[str]().union(*(names_in(node.inputs) for node in graph.values()))


def substituted(nodes: Graph, values: Mapping[str, JsonValue]) -> Graph:
    """Return a graph with the named placeholders replaced by values."""
    return {
        key: replace(
            node, inputs={name: _fill_in(value, values) for name, value in node.inputs.items()}
        )
        for key, node in nodes.items()
    }


def _fill_in(value: JsonValue, values: Mapping[str, JsonValue]) -> JsonValue:
    """Replace placeholders in one pass, so that text resembling a placeholder stays text."""
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


def link_of(value: JsonValue) -> tuple[str, int] | None:
    """Return the node and output an input is linked to; None for any other value."""
    match value:
        case [str(key), int(index)]:
            return key, index
        case _:
            return None


def upstream_of(graph: Graph, key: str) -> frozenset[str]:
    """Return the nodes that a node depends on, which have run when it begins."""
    found: set[str] = set()
    todo = [key]
    while todo:
        node = graph.get(todo.pop())
        links = map(link_of, node.inputs.values()) if node else ()
        new = {link[0] for link in links if link} - found
        found |= new
        todo += new
    return frozenset(found - {key})


def leading_to(graph: Graph, keys: Collection[str]) -> Graph:
    """Return the nodes with these keys and all that they depend on."""
    kept = frozenset(keys).union(*(upstream_of(graph, key) for key in keys))
    return {key: node for key, node in graph.items() if key in kept}


def bypass(node: Node) -> tuple[str, ...]:
    """Return the linked inputs that replace a LoRA loader's outputs when it is removed."""
    if "lora" not in node.class_type.casefold() or not link_of(node.inputs.get("model")):
        return ()
    return PASSES_ON if link_of(node.inputs.get("clip")) else PASSES_ON[:1]


def cycle_in(graph: Graph) -> str | None:
    """Return a node that depends on itself, or None."""
    try:
        TopologicalSorter({key: _sources(node) for key, node in graph.items()}).prepare()
    except CycleError as error:
        return str(error.args[1][0])
    return None


def _sources(node: Node) -> frozenset[str]:
    return frozenset(link[0] for link in map(link_of, node.inputs.values()) if link)


def texts_in(value: JsonValue | Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield every text in a value."""
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from texts_in(item)
        case Mapping():
            for item in value.values():
                yield from texts_in(item)


def is_deep(value: JsonValue) -> bool:
    """Return whether a value is nested more deeply than any node needs."""
    level = [value]
    for _ in range(_DEEPEST):
        lists = [list(each.values()) if isinstance(each, dict) else each for each in level]
        level = [inner for each in lists if isinstance(each, list) for inner in each]
    return bool(level)


def has_broken_placeholder(text: str) -> bool:
    """Return whether a text contains a malformed placeholder."""
    return "{{" in _BRACES.sub("", _PLACEHOLDER.sub("", text))


def texts_by_input(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield every text in a graph, as (input, text)."""
    for node in graph.values():
        for name, value in node.inputs.items():
            if isinstance(value, str):
                yield name, value


def placeholders_in(value: JsonValue | Mapping[str, JsonValue]) -> Iterator[re.Match[str]]:
    """Yield the placeholders in a value. Group 1 is the name, group 2 the default or None."""
    for text in texts_in(value):
        yield from _PLACEHOLDER.finditer(text)


def whole_placeholder(value: JsonValue) -> str | None:
    """Return the placeholder's name if the whole value is one placeholder, or else None."""
    found = _PLACEHOLDER.fullmatch(value) if isinstance(value, str) else None
    return found[1] if found else None


def names_in(value: JsonValue | Mapping[str, JsonValue]) -> frozenset[str]:
    """Return the names of the placeholders in a value."""
    return frozenset(found[1] for found in placeholders_in(value))


Asked = TextToImage | TextToVideo | TextToAudio | TextToSpeech
"""The request types that a graph can serve."""

# The placeholders that a request can fill, with names for people. The operator fills all others.
WORDS: Mapping[str, str] = {
    "prompt": "prompt",
    "negative": "negative prompt",
    "width": "width",
    "height": "height",
    "steps": "number of steps",
    "half_steps": "half the number of steps",
    "seed": "seed",
    "count": "number of images",
    "guidance": "guidance",
    "sampler": "sampler",
    "scheduler": "scheduler",
    "strength": "strength",
    "lora": "LoRA",
    "image": "image to start from",
    "image2": "second image",
    "image3": "third image",
    "image4": "fourth image",
    "mask": "mask",
    "last_image": "last image",
    "audio": "sound",
    "seconds": "length",
    "frames": "number of frames",
    "fps": "frames per second",
    "lyrics": "lyrics",
    "voice": "voice",
}
IMAGES = ("image", "image2", "image3", "image4")
FILES = frozenset({*IMAGES, "mask", "last_image", "audio"})
"""The placeholders that become the name of a file on the server."""

NEEDS_DEFAULT = (
    *("width", "height", "steps", "guidance", "sampler", "scheduler", "strength"),
    *("seconds", "fps", "voice"),
)
NO_DEFAULT = ("prompt", "seed", "count", "half_steps", *sorted(FILES))

FOLLOWS: Mapping[str, str] = {"frames": "seconds", "half_steps": "steps"}
"""Placeholders whose value is computed from a field of the request."""


def places(request: Asked, files: Sequence[File]) -> dict[str, File]:
    """Assign a request's files to placeholders.

    Surplus files get names that no template uses, such as "image5".
    """
    sounds = [file for file in files if file.mime.startswith("audio/")]
    images = [file for file in files if file not in sounds]
    found = {"audio" if n == 1 else f"audio{n}": file for n, file in enumerate(sounds, start=1)}
    if isinstance(request, TextToImage) and request.mask and len(images) > 1:
        found["mask"] = images.pop()
    second = "last_image" if isinstance(request, TextToVideo) else "image2"
    for number, file in enumerate(images, start=1):
        found[{1: "image", 2: second}.get(number, f"image{number}")] = file
    return found
