"""Several crowds of the trial of truth together, and how far single ones differ by luck alone."""

from collections.abc import Mapping, Sequence
from math import comb, fsum
from statistics import fmean
from typing import Any

ENOUGH = 0.80  # of each lane's promises are to be kept

_ADDED = ("looks", "contradictions", "past_moments", "untrue_reasons", "answers_429")
_FAULTS = ("contradictions", "past_moments", "untrue_reasons")


def seeds_of(text: str) -> list[int]:
    """Return the seeds of a text such as `1-12,20`. Raises `ValueError`."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds.extend(range(int(first), int(last or first) + 1))
    return seeds


def pooled(runs: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Return the figures of all crowds.

    `below_by_lane` says in how many crowds fewer than four in five promises of a lane were kept,
    and in how many that would be so if each promise were kept by a throw of the same dice.
    """
    by_lane: dict[str, list[tuple[int, int]]] = {}
    for run in runs:
        for lane, counts in run["broken_by_lane"].items():
            number = counts["promises"]
            kept = 2 * number - sum(counts.values())
            by_lane.setdefault(lane, []).append((kept, number))
    shares = {lane: _share(crowds) for lane, crowds in sorted(by_lane.items())}
    return {
        "crowds": len(runs),
        **{name: sum(run[name] for run in runs) for name in _ADDED},
        "faulty_seeds": [run["seed"] for run in runs if any(run[name] for name in _FAULTS)],
        "flips_per_job": round(fmean(run["flips_per_job"] for run in runs), 2),
        "promises_by_lane": {lane: sum(n for _, n in by_lane[lane]) for lane in shares},
        "kept_by_lane": {lane: round(share, 3) for lane, share in shares.items()},
        "within_spread_by_lane": {
            lane: round(_mean(runs, lane, "within_spread_by_lane"), 2) for lane in shares
        },
        "below_by_lane": {
            lane: {
                "seen": sum(kept < ENOUGH * number for kept, number in by_lane[lane]),
                "by_luck": round(sum(_chance(number, share) for _, number in by_lane[lane]), 1),
            }
            for lane, share in shares.items()
        },
    }


def _share(crowds: Sequence[tuple[int, int]]) -> float:
    return sum(kept for kept, _ in crowds) / sum(number for _, number in crowds)


def _mean(runs: Sequence[Mapping[str, Any]], lane: str, name: str) -> float:
    """Return the mean of a share over all promises of a lane."""
    numbers: list[int] = [run["broken_by_lane"].get(lane, {}).get("promises", 0) for run in runs]
    shares = [float(run[name].get(lane, 0.0)) for run in runs]
    return fsum(share * number for share, number in zip(shares, numbers, strict=True)) / sum(
        numbers
    )


def _chance(number: int, share: float) -> float:
    """Return how likely it is that too few of so many promises are kept."""
    return sum(
        comb(number, kept) * share**kept * (1 - share) ** (number - kept)
        for kept in range(number + 1)
        if kept < ENOUGH * number
    )
