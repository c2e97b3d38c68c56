"""Figures of several rounds, and how a benchmark prints them."""

import json
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any


def medians(rounds: Sequence[Any], rounding: Callable[[float], float] = float) -> Any:
    """Return the median of every figure, however deep in a round it is."""
    if isinstance(rounds[0], Mapping):
        return {name: medians([each[name] for each in rounds], rounding) for name in rounds[0]}
    return rounding(median(rounds))


def show(figures: Mapping[str, Any], *, as_json: bool) -> None:
    """Print figures: as one JSON object, or one in each line."""
    if as_json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        print(f"{name:<32} {figure}")
