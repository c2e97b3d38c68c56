"""Puts the LoRAs of a request into a graph. Pure.

Loaders name a LoRA in an input, in a row of a list (`{"on": true, "lora": …, "strength": 1}`), or
in a text (`<lora:…:1>`).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue

from backends.comfyui.workflow.graph.nodes import (
    Graph,
    Node,
    bypass,
    files_of,
    link_of,
    names_in,
    substituted,
    texts_in,
    upstream_of,
    whole_placeholder,
)
from backends.common.model_names import short_name
from queueing.core.errors import ProblemKind, Rejected, problem
from queueing.core.requests import LoraWeight

_EXPERT = re.compile(r"(high|low)[ _-]?noise", re.IGNORECASE)
_STRENGTH = re.compile(r"strength|weight|(^|_)wt(_|$)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_TAG = re.compile(r"<lora:([^<>]*?\{\{ *lora *(?::[^{}]*)?\}\})((?::[^<>]*)?)>", re.IGNORECASE)
_TAGGED = re.compile(r"<lora:[^<>{}]+>", re.IGNORECASE)
NO_LORA = "None"
"""The choice for a row without a LoRA, in loaders with several lists."""


def with_loras(nodes: Graph, loras: Sequence[LoraWeight]) -> Graph:
    """Return a graph in which each LoRA loader with a placeholder loads its LoRAs in a chain.

    Each loader gets all LoRAs except those made for the other one of two experts. The requested
    weight is multiplied by any strength that the template sets. Of several chained loaders only the
    first is used; without a LoRA, none is. LoRAs that a loader always loads stay. Raises `Rejected`
    for LoRAs or weights that a loader cannot handle.
    """
    loaders = [key for key, node in nodes.items() if "lora" in names_in(node.inputs)]
    given = {key: _made_for(nodes, key, loras) for key in loaders}
    first = [key for key in loaders if not _nodes_after(nodes, key) & set(loaders)]
    used = [key for key in loaders if given[key] and (key in first or not bypass(nodes[key]))]
    left = [key for key in loaders if key not in used]
    always = {key: _pruned(nodes[key], _is_asked) for key in left if _loads_always(nodes[key])}
    nodes = _without({**nodes, **always}, [key for key in left if key not in always])
    for key in used:
        nodes = _chained(nodes, key, given[key])
    return nodes


def _made_for(nodes: Graph, key: str, loras: Sequence[LoraWeight]) -> list[LoraWeight]:
    """Return a loader's LoRAs. Those for Wan come in pairs, one for each of its two experts."""
    texts = " ".join(
        text for each in _nodes_after(nodes, key) for text in texts_in(nodes[each].inputs)
    )
    own = _EXPERT.search(texts)
    if own is None:
        return list(loras)
    sides = [(lora, _EXPERT.search(lora.name)) for lora in loras]
    return [lora for lora, side in sides if side is None or side[1].lower() == own[1].lower()]


def _nodes_after(nodes: Graph, key: str) -> frozenset[str]:
    """Return the nodes that a loader's model passes through."""
    link = link_of(nodes[key].inputs.get("model"))
    return upstream_of(nodes, link[0]) | {link[0]} if link else frozenset()


def _chained(nodes: Graph, key: str, loras: Sequence[LoraWeight]) -> Graph:
    """Replace a loader with a chain. The last one keeps its id, to which other nodes link."""
    node, grown = nodes[key], dict[str, Node]()
    sources = bypass(node)
    if len(loras) > 1 and not sources:
        raise Rejected(f"node {key} can load only one LoRA", problem=problem(ProblemKind.ONE_LORA))
    before: Mapping[str, JsonValue] = {}
    for number, lora in enumerate(loras, start=1):
        own = key if number == len(loras) else _free_id(nodes, f"{key}-lora{number}")
        row = node if number == 1 else _pruned(node, _is_fixed)
        filled = replace(row, inputs={**_weighed(row, key, lora), **before})
        grown |= substituted({own: filled}, {"lora": lora.name})
        before = {source: [own, output] for output, source in enumerate(sources)}
    return {**nodes, **grown}


def _weighed(node: Node, key: str, lora: LoraWeight) -> dict[str, JsonValue]:
    """Return a loader's inputs with the LoRA's weight, multiplied by its own strength."""
    filled = _filled(node, lora)
    if lora.weight != 1 and filled == _filled(node, LoraWeight(name=lora.name)):
        why = problem(ProblemKind.TAKES_NO, field="lora_weight")
        raise Rejected(f"node {key} has no strength", problem=why)
    return filled


def _filled(node: Node, lora: LoraWeight) -> dict[str, JsonValue]:
    filled = {name: _with_weight(value, lora) for name, value in node.inputs.items()}
    for name in [name for name, value in filled.items() if _is_asked(value)]:
        filled |= _scaled(filled, _beside(filled, name), lora.weight)
    return filled


def _with_weight(value: JsonValue, lora: LoraWeight) -> JsonValue:
    """Return an input with the LoRA's weight in the rows and tags that name it."""
    match value:
        case str():
            return _TAG.sub(
                lambda tag: f"<lora:{short_name(lora.name)}{_times(tag[2], lora)}>", value
            )
        case list():
            return [_with_weight(item, lora) for item in value]
        case dict() if any(map(_is_asked, value.values())):
            return {**value, **_scaled(value, value, lora.weight)}
        case dict():
            return {name: _with_weight(item, lora) for name, item in value.items()}
        case _:
            return value


def _times(written: str, lora: LoraWeight) -> str:
    """Return the weights in a tag, such as ":0.8:1", multiplied by that of the LoRA."""
    own = written or ":1"
    return re.sub(r"(?<=:)-?\d*\.?\d+", lambda number: f"{float(number[0]) * lora.weight:g}", own)


def _beside(inputs: Mapping[str, JsonValue], name: str) -> list[str]:
    """Return the inputs that may hold the strength of the LoRA in an input; rows are numbered."""
    row = _NUMBER.findall(name)
    return [each for each in inputs if not row or _NUMBER.findall(each) in (row, [])]


def _scaled(
    inputs: Mapping[str, JsonValue], names: Iterable[str], weight: float
) -> dict[str, JsonValue]:
    return {
        name: value * weight
        for name in names
        if _STRENGTH.search(name)
        and isinstance(value := inputs[name], int | float)
        and not isinstance(value, bool)
    }


def _is_asked(value: JsonValue) -> bool:
    """Return whether a value is the placeholder for the LoRA of a request."""
    return whole_placeholder(value) == "lora"


def _is_fixed(value: JsonValue) -> bool:
    """Return whether a value is the name of a LoRA that is always loaded."""
    return isinstance(value, str) and bool(files_of({"": Node(class_type="", inputs={"": value})}))


def _loads_always(node: Node) -> bool:
    return bool(bypass(node)) and _pruned(node, _is_fixed) != node


def _pruned(node: Node, is_out: Callable[[JsonValue], bool]) -> Node:
    """Return a loader without its rows for certain LoRAs."""
    inputs: dict[str, JsonValue] = {}
    for name, value in node.inputs.items():
        if link_of(value):
            inputs[name] = value
        elif is_out(value):
            inputs[name] = NO_LORA if "lora" in name.casefold() else value
        elif not _is_row(value, is_out):
            inputs[name] = _without_rows(value, is_out)
    return replace(node, inputs=inputs)


def _without_rows(value: JsonValue, is_out: Callable[[JsonValue], bool]) -> JsonValue:
    match value:
        case str():
            return (_TAG if is_out is _is_asked else _TAGGED).sub("", value)
        case list():
            return [_without_rows(row, is_out) for row in value if not _is_row(row, is_out)]
        case dict():
            return {name: _without_rows(item, is_out) for name, item in value.items()}
        case _:
            return value


def _is_row(value: JsonValue, is_out: Callable[[JsonValue], bool]) -> bool:
    return isinstance(value, dict) and any(map(is_out, value.values()))


def _free_id(nodes: Graph, wish: str) -> str:
    while wish in nodes:
        wish += "-"
    return wish


def _without(nodes: Graph, loaders: Sequence[str]) -> Graph:
    """Remove loaders and connect their sources to the readers of their outputs."""
    links = {
        (key, output): nodes[key].inputs[source]
        for key in loaders
        for output, source in enumerate(bypass(nodes[key]))
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
