"""The limits a ComfyUI server's own description sets for the numbers of a graph. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf

from pydantic import JsonValue

from backends.comfyui.workflow.graph import Graph, whole_placeholder


@dataclass(frozen=True, slots=True)
class NumberRange:
    """The least and the greatest value of an input."""

    least: float = -inf
    most: float = inf

    def nearest(self, value: int) -> int:
        """Return the allowed number nearest to this one."""
        return int(min(max(value, self.least), self.most))

    def wrapped(self, seed: int) -> int:
        """Return an allowed seed: the seed itself if possible, and always the same one for it."""
        if self.least <= seed <= self.most:
            return seed
        least = 0 if self.least == -inf else int(self.least)
        if self.most == inf:
            return least + seed
        return least + seed % (int(self.most) - least + 1)


def common(limits: Iterable[NumberRange]) -> NumberRange:
    """Return what all ranges allow; `least` exceeds `most` when that is nothing."""
    found = list(limits)
    return NumberRange(
        max((each.least for each in found), default=-inf),
        min((each.most for each in found), default=inf),
    )


def limits_in(kind: JsonValue) -> NumberRange | None:
    """Return the limits of an input from the server's description; None if it takes no number."""
    match kind:
        case ["INT" | "FLOAT", {**told}, *_]:
            return NumberRange(_number(told.get("min"), -inf), _number(told.get("max"), inf))
        case ["INT" | "FLOAT"]:
            return NumberRange()
        case _:
            return None


def inputs_of(graph: Graph, word: str) -> Iterator[tuple[str, str]]:
    """Yield node type and input of each place that a placeholder fills alone."""
    for node in graph.values():
        for name, value in node.inputs.items():
            if whole_placeholder(value) == word:
                yield node.class_type, name


def _number(value: object, default: float) -> float:
    return value if isinstance(value, int | float) else default
