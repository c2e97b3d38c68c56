"""The seeds that a graph sets itself, which no request changes. Pure."""

from collections.abc import Mapping
from typing import TypeGuard

from pydantic import JsonValue

from backends.comfyui.workflow.graph.nodes import Graph, link_of

_SEEDS = ("seed", "noise_seed")
_NUMBERS = (*_SEEDS, "value", "int", "number", "Number")
"""The inputs of nodes that pass a number on to a sampler."""


def fixed_seeds(nodes: Graph) -> Mapping[str, int]:
    """Return the seeds that a graph sets, by the node that has them.

    A negative number stands for a random seed, and a sampler that adds no noise uses none.
    """
    found: dict[str, int] = {}
    for key, node in nodes.items():
        if node.inputs.get("add_noise") != "disable":
            for name in _SEEDS:
                found |= _held(nodes, key, node.inputs.get(name))
    return found


def _held(nodes: Graph, key: str, value: JsonValue) -> dict[str, int]:
    link = link_of(value)
    if link is None:
        return {key: value} if _is_seed(value) else {}
    inputs = nodes[link[0]].inputs
    numbers = [number for name in _NUMBERS if _is_seed(number := inputs.get(name))]
    return {link[0]: numbers[0]} if numbers else {}


def _is_seed(value: JsonValue) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
