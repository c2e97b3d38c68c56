"""Follows the links of an exported workflow to the texts and numbers behind its samplers. Pure.

Packs of nodes have no common types, but their inputs have common names.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from backends.comfyui.workflow.graph.nodes import Graph, Node, leading_to, link_of, upstream_of

POSITIVE, NEGATIVE = "positive", "negative"


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class InputPlace:
    """An input of a node, written `6.text`."""

    node: str
    name: str

    def __str__(self) -> str:
        return f"{self.node}.{self.name}"


_GUIDES = (
    "positive",
    "guider",
    "text_embeds",
    "hyvid_embeds",
    "conditioning",
    "cond",
    "sdxl_tuple",
    "pipe",
    "basic_pipe",
    "context",
)
_RUNS = ("seed", "noise_seed", "noise", "steps", "sigmas")

_TEXT = re.compile(
    r"^(text(?!_encoder|_embeds)|prompt|caption|tags|(\w+_)?prompt$|clip_[lg]$|t5xxl|llama$|bert$"
    r"|mt5xl$|positive$|negative$|wildcard_text|populated_text)",
    re.IGNORECASE,
)
_STRING = re.compile(
    r"^(text|string|str$|prompt|value|positive|negative|wildcard_text|populated_text|input|caption"
    r"|content|tags|any|arg|a$|b$|s\d)",
    re.IGNORECASE,
)
_NOT_PROMPT = re.compile(
    r"system|instruct|delimiter|separator|find|replace|regex|pattern|name|mode|^log_"
)
_NEGATIVE = re.compile(r"neg", re.IGNORECASE)
_ASIDE = re.compile(
    r"model|^clip(_\d|_vision.*)?$|vae|image|pixels|control|mask|latent|samples|style|sampler"
    r"|sigmas|noise|audio|video|seed|width|height|strength|trigger",
    re.IGNORECASE,
)
_SHOWS = re.compile(r"show|display|preview", re.IGNORECASE)
_FARTHEST = 150  # nodes between a sampler and a text
_COMPUTES = re.compile(r"math|expression|calc", re.IGNORECASE)
_MEASURES = re.compile(r"image.?size", re.IGNORECASE)
_CHOICES = re.compile(r"^(any|input|value|on)_?\w{1,5}$", re.IGNORECASE)
_DRAWN = re.compile(r"latent|samples|image_embeds|^image$|^pixels$|^images$", re.IGNORECASE)
_NUMBERS = ("value", "int", "number", "Number", "Value", "float", "seed", "noise_seed", "a")


def samplers(graph: Graph) -> Sequence[str]:
    """Return the nodes that draw, each after those whose results it continues."""
    found = [key for key, node in graph.items() if _samples(node)]
    return sorted(found, key=lambda key: len(upstream_of(graph, key) & set(found)))


def first_samplers(graph: Graph) -> Sequence[str]:
    """Return the samplers that do not continue another one's result."""
    found = set(samplers(graph))
    return [key for key in samplers(graph) if not upstream_of(graph, key) & found]


def _samples(node: Node) -> bool:
    guided = any(link_of(node.inputs.get(name)) for name in _GUIDES)
    return guided and any(name in node.inputs for name in _RUNS)


# ---------------------------------------------------------------- texts


def texts_behind(graph: Graph, sampler: str, role: str) -> Sequence[Sequence[InputPlace]]:
    """Return the texts that guide a sampler, for each input of a text encoder.

    Several texts for one input are joined or chosen from by other nodes.
    """
    node, walk = graph[sampler], _TextWalk(graph, role)
    if role in node.inputs:
        return walk.encoded(node.inputs[role])
    guides = [name for name in _GUIDES if link_of(node.inputs.get(name))]
    return [found for name in guides for found in walk.encoded(node.inputs[name])]


class _TextWalk:
    """The path from a sampler's input to the texts of one role."""

    def __init__(self, graph: Graph, role: str) -> None:
        self._graph = graph
        self._seen: set[str] = set()
        self._role = role

    def encoded(self, value: JsonValue) -> list[Sequence[InputPlace]]:
        """Return the texts of the encoders behind a link."""
        link, role = link_of(value), self._role
        if link is None or link[0] in self._seen or len(self._seen) > _FARTHEST:
            return []
        self._seen.add(link[0])
        node = self._graph[link[0]]
        if taken := switched(self._graph, node):
            return self.encoded(taken)
        if role == NEGATIVE and node.class_type == "ConditioningZeroOut":
            return []
        names = text_inputs(node, role)
        if names:
            found = (self._texts(link[0], name) for name in names)
            return [places for places in found if places]
        return [
            places for name in _passing(node, role) for places in self.encoded(node.inputs[name])
        ]

    def _texts(self, key: str, name: str) -> Sequence[InputPlace]:
        value = self._graph[key].inputs[name]
        if isinstance(value, str):
            return [InputPlace(node=key, name=name)]
        return list(dict.fromkeys(self._strings(value, set())))

    def _strings(self, value: JsonValue, seen: set[str]) -> Iterator[InputPlace]:
        """Yield the texts behind a link to a string."""
        link = link_of(value)
        if link is None or link[0] in seen or len(seen) > _FARTHEST:
            return
        seen.add(link[0])
        node = self._graph[link[0]]
        if taken := switched(self._graph, node):
            yield from self._strings(taken, seen)
            return
        plain = [name for name in node.inputs if not _ASIDE.search(name)]
        names = _for_role([name for name in plain if not _NOT_PROMPT.search(name)], self._role)
        linked = [name for name in names if link_of(node.inputs[name])]
        for name in linked:
            yield from self._strings(node.inputs[name], seen)
        for name in names if not (linked and _SHOWS.search(node.class_type)) else ():
            if isinstance(node.inputs[name], str) and _STRING.match(name):
                yield InputPlace(node=link[0], name=name)


def text_inputs(node: Node, role: str) -> Sequence[str]:
    """Return the inputs of an encoder that take texts of a role."""
    names = [
        name
        for name, value in node.inputs.items()
        if _TEXT.match(name) and not _NOT_PROMPT.search(name)
        if isinstance(value, str) or (link_of(value) and name not in {POSITIVE, NEGATIVE})
    ]
    return _for_role(names, role)


def _for_role(names: Sequence[str], role: str) -> Sequence[str]:
    against = [name for name in names if _NEGATIVE.search(name)]
    if role == NEGATIVE and against:
        return against
    return [name for name in names if name not in against]


def _passing(node: Node, role: str) -> Sequence[str]:
    """Return the inputs from which a node passes on the guidance of a role."""
    if link_of(node.inputs.get(role)):
        return [role]
    names = [name for name, value in node.inputs.items() if link_of(value)]
    return _for_role([name for name in names if not _ASIDE.search(name)], role)


# ---------------------------------------------------------------- numbers


def switched(graph: Graph, node: Node) -> JsonValue:
    """Return the link that a switch with a fixed position passes on, or None for other nodes."""
    if {"on_true", "on_false", "switch"} <= node.inputs.keys():
        position = node.inputs["switch"]
        for _ in range(len(graph)):
            if (link := link_of(position)) is None:
                break
            position = graph[link[0]].inputs.get("value")
        if isinstance(position, bool):
            return node.inputs["on_true" if position else "on_false"]
    return None


def number_place(graph: Graph, key: str, name: str) -> InputPlace | None:
    """Return where a number is set: in an input, or in the node that it is linked to."""
    value = graph[key].inputs.get(name)
    for _ in range(len(graph)):
        link = link_of(value)
        if link is None:
            return InputPlace(node=key, name=name) if _is_number(value) else None
        key, node = link[0], graph[link[0]]
        if taken := switched(graph, node):
            value = taken
            continue
        if _MEASURES.search(node.class_type):  # the size of an image, which another node sets
            key = nearest(graph, key, ["image"], [name]) or ""
            value = graph[key].inputs[name] if key else None
            continue
        names = _number_inputs(node, name, link[1])
        if not names:
            return None
        name = names[0] if len(names) == 1 else name
        value = node.inputs.get(name)
    return None


def _number_inputs(node: Node, name: str, output: int) -> Sequence[str]:
    """Return the input that a number comes from, if a node only passes it on."""
    if node.class_type.startswith("mxSlider"):
        axis = "XY"[output] if output < 2 else "X"  # a slider has two axes
        return [f"{axis}f" if node.inputs.get(f"isfloat{axis}") else f"{axis}i"]
    if _COMPUTES.search(node.class_type):
        return []
    numbers = [each for each, value in node.inputs.items() if _is_number(value) or link_of(value)]
    if name in numbers:
        return [name]
    usual = [each for each in _NUMBERS if each in numbers]
    if usual and len(numbers) == 1:
        return usual
    literal = [each for each in numbers if _is_number(node.inputs[each])]
    return literal if len(numbers) == 1 else [each for each in literal if each in _NUMBERS[:-1]][:1]


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def value_at(graph: Graph, place: InputPlace) -> JsonValue:
    """Return the value of an input."""
    return graph[place.node].inputs.get(place.name)


def nearest(graph: Graph, key: str, starts: Sequence[str], wanted: Sequence[str]) -> str | None:
    """Return the nearest node behind some inputs of a node that has all wanted inputs."""
    todo = [link[0] for name in starts if (link := link_of(graph[key].inputs.get(name)))]
    seen = set[str]()
    while todo:
        found = todo.pop(0)
        node = graph[found]
        if all(name in node.inputs for name in wanted):
            return found
        seen.add(found)
        links = [link_of(value) for name, value in node.inputs.items() if _leads(name, starts)]
        todo += [link[0] for link in links if link and link[0] not in seen]
    return None


def _leads(name: str, starts: Sequence[str]) -> bool:
    """Return whether an input continues a path that began at these inputs."""
    if "sigmas" in starts:
        return name == "sigmas"
    if "guider" in starts or POSITIVE in starts:
        return not _ASIDE.search(name)
    return bool(_DRAWN.search(name) or _CHOICES.match(name)) or name == "start_image"


def drawn_inputs(node: Node) -> Sequence[str]:
    """Return the inputs of a sampler for the latent that it starts from."""
    return [name for name, value in node.inputs.items() if link_of(value) and _DRAWN.search(name)]


def behind(graph: Graph, key: str, names: Sequence[str]) -> frozenset[str]:
    """Return everything that some inputs of a node depend on."""
    links = [link_of(graph[key].inputs.get(name)) for name in names]
    return frozenset(leading_to(graph, [link[0] for link in links if link]))
