"""Chains of LoRA loaders, made from the loaders a template holds. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue

from backends.comfyui.workflow.graph import (
    Graph,
    Node,
    bypass,
    link_of,
    names_in,
    substituted,
    texts_in,
    upstream_of,
)
from queueing.core.errors import Rejected
from queueing.core.problems import What, problem
from queueing.core.requests import LoraWeight

_EXPERT = re.compile(r"(high|low)[ _-]?noise", re.IGNORECASE)
_STRENGTHS = ("strength_model", "strength_clip", "lora_strength", "strength")


def with_loras(nodes: Graph, loras: Sequence[LoraWeight]) -> Graph:
    """Return a graph in which each loader with a placeholder loads its LoRAs, one after another.

    Each loader gets all of them, except those made for the other of two experts. A strength that
    the template sets counts times the weight asked for. Of loaders that follow each other only the
    first is used; without a LoRA none is. Raises `Rejected` for what a loader cannot do.
    """
    loaders = [key for key, node in nodes.items() if "lora" in names_in(node.inputs)]
    given = {key: _made_for(nodes, key, loras) for key in loaders}
    first = [key for key in loaders if not _behind(nodes, key) & set(loaders)]
    used = [key for key in loaders if given[key] and (key in first or not bypass(nodes[key]))]
    nodes = _without(nodes, [key for key in loaders if key not in used])
    for key in used:
        nodes = _chained(nodes, key, given[key])
    return nodes


def _made_for(nodes: Graph, key: str, loras: Sequence[LoraWeight]) -> list[LoraWeight]:
    """Return the LoRAs for a loader: Wan's come in pairs, one for each of its two experts."""
    texts = " ".join(text for each in _behind(nodes, key) for text in texts_in(nodes[each].inputs))
    own = _EXPERT.search(texts)
    if own is None:
        return list(loras)
    sides = [(lora, _EXPERT.search(lora.name)) for lora in loras]
    return [lora for lora, side in sides if side is None or side[1].lower() == own[1].lower()]


def _behind(nodes: Graph, key: str) -> frozenset[str]:
    """Return the nodes that a loader's model comes through."""
    link = link_of(nodes[key].inputs.get("model"))
    return upstream_of(nodes, link[0]) | {link[0]} if link else frozenset()


def _chained(nodes: Graph, key: str, loras: Sequence[LoraWeight]) -> Graph:
    """Put as many loaders in the place of one; the last keeps its id, which others link to."""
    node, grown = nodes[key], dict[str, Node]()
    sources = bypass(node)
    if len(loras) > 1 and not sources:
        raise Rejected(f"node {key} loads one LoRA", problem=problem(What.ONE_LORA))
    before: Mapping[str, JsonValue] = {}
    for number, lora in enumerate(loras, start=1):
        own = key if number == len(loras) else _free_id(nodes, f"{key}-lora{number}")
        filled = replace(node, inputs={**node.inputs, **before, **_strengths(node, key, lora)})
        grown |= substituted({own: filled}, {"lora": lora.name})
        before = {source: [own, output] for output, source in enumerate(sources)}
    return {**nodes, **grown}


def _strengths(node: Node, key: str, lora: LoraWeight) -> dict[str, JsonValue]:
    found = {
        name: value * lora.weight
        for name in _STRENGTHS
        if isinstance(value := node.inputs.get(name), int | float)
    }
    if lora.weight != 1 and not found:
        why = problem(What.TAKES_NO, field="lora_weight")
        raise Rejected(f"node {key} has no strength", problem=why)
    return dict(found)


def _free_id(nodes: Graph, wish: str) -> str:
    while wish in nodes:
        wish += "-"
    return wish


def _without(nodes: Graph, loaders: Sequence[str]) -> Graph:
    """Remove loaders and connect their inputs to their outputs' readers."""
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
