"""The estimates of the trial of truth: which were kept, and what broke the others."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import comb, fsum
from statistics import fmean
from typing import Any

from benchmarks.truth.crowd import MODELS, Server

ENOUGH = 0.80  # of each lane's promises are to be kept
KEPT_S, KEPT_SHARE = 5.0, 0.2

_TAKEN_UP_S = 45.0  # a server that went away so long ago may still be away
_ADDED = ("looks", "contradictions", "past_moments", "untrue_reasons", "answers_429")
_FAULTS = ("contradictions", "past_moments", "untrue_reasons")


class Broken(StrEnum):
    """The cause of a broken promise; the first that applies."""

    EARLY = "early"  # it was done before its time
    FAULT = "fault"  # an image or a load failed, or a server went away, where it could run
    OVERTAKEN = "overtaken"  # later requests began before it on its server
    OTHER = "other"  # the estimate was wrong


@dataclass(frozen=True, kw_only=True, slots=True)
class Promise:
    """The estimate for one request, and when it ended; moments in the loop's time.

    `spread_s` is how far off the estimate said it might be.
    """

    lane: str
    model: str
    prompt: str
    at: float
    promised: float
    ended: float
    spread_s: float = 0.0

    @property
    def off_s(self) -> float:
        """How far the estimate was off."""
        return abs(self.promised - self.ended)

    @property
    def kept(self) -> bool:
        """Whether the estimate was right within 20 % of the wait, or 5 s."""
        return self.off_s <= max(KEPT_S, KEPT_SHARE * (self.ended - self.at))


def by_lane(promises: Iterable[Promise], holds: Callable[[Promise], bool]) -> dict[str, float]:
    """Return the share of each lane's promises of which something holds."""
    found: dict[str, list[bool]] = {}
    for promise in promises:
        found.setdefault(promise.lane, []).append(holds(promise))
    return {lane: round(fmean(each), 2) for lane, each in sorted(found.items())}


def broken(promises: Sequence[Promise], servers: Mapping[str, Server]) -> dict[str, dict[str, int]]:
    """Return the number of each lane's promises, and of broken ones by cause."""
    accepted_at = {promise.prompt: promise.at for promise in promises}
    found: dict[str, Counter[str]] = {}
    for promise in promises:
        counts = found.setdefault(promise.lane, Counter())
        counts["promises"] += 1
        if not promise.kept:
            counts[_cause(promise, servers, accepted_at)] += 1
    return {lane: dict(counts) for lane, counts in sorted(found.items())}


def _cause(
    promise: Promise, servers: Mapping[str, Server], accepted_at: Mapping[str, float]
) -> Broken:
    if promise.ended < promise.promised:
        return Broken.EARLY
    able = [servers[name] for name in MODELS[promise.model][0].split()]
    since = promise.at - _TAKEN_UP_S
    if any(since <= moment <= promise.ended for server in able for moment in server.faults):
        return Broken.FAULT
    if any(_overtaken(promise, server, accepted_at) for server in able):
        return Broken.OVERTAKEN
    return Broken.OTHER


def _overtaken(promise: Promise, server: Server, accepted_at: Mapping[str, float]) -> bool:
    """Return whether a later request began first on the server that served this one."""
    starts = [moment for moment, _, prompt in server.starts if prompt == promise.prompt]
    return bool(starts) and any(
        promise.at < accepted_at.get(prompt, 0.0) and moment < starts[-1]
        for moment, _, prompt in server.starts
    )


def seeds_of(text: str) -> list[int]:
    """Return the seeds of a text such as `1-12,20`. Raises `ValueError`."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds.extend(range(int(first), int(last or first) + 1))
    return seeds


def pooled(runs: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Return the figures of all crowds.

    `below_by_lane` has the number of crowds that kept fewer than four in five promises of a lane, and
    the number to expect by luck if each promise were kept with the same probability.
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
