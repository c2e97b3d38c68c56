"""Figures of several rounds, and how a benchmark prints them."""

import json
from collections.abc import Callable, Mapping, Sequence
from statistics import median, quantiles
from typing import Any


def medians(rounds: Sequence[Any], rounding: Callable[[float], float] = float) -> Any:
    """Return the median of every figure, however deep in a round it is."""
    if isinstance(rounds[0], Mapping):
        return {name: medians([each[name] for each in rounds], rounding) for name in rounds[0]}
    return rounding(median(rounds))


def percentiles(name: str, seconds: Sequence[float]) -> dict[str, float]:
    """Return the median and the 95th percentile in milliseconds."""
    cuts = quantiles(seconds, n=20, method="inclusive") if len(seconds) > 1 else [*seconds] * 19
    return {f"{name}_p50": cuts[9] * 1000, f"{name}_p95": cuts[18] * 1000}


def show(figures: Mapping[str, Any], *, as_json: bool) -> None:
    """Print figures: as one JSON object, or one in each line."""
    if as_json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        print(f"{name:<32} {figure}")
