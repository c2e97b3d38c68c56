"""Why promises of the trial of truth were broken: what came in between that no one could know of."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.truth_crowd import MODELS, Server

_TAKEN_UP_S = 45.0  # a server that went away so long before may be still away


class Broken(StrEnum):
    """What a broken promise is put down to; the first that applies."""

    EARLY = "early"  # it was done before its time
    FAULT = "fault"  # a picture or a load failed, or a server went away, where it could run
    OVERTAKEN = "overtaken"  # requests that came after it began before it on its server
    OTHER = "other"  # the estimate was wrong


@dataclass(frozen=True, kw_only=True, slots=True)
class Promise:
    """What was promised to one request, and what came of it; moments in the loop's time.

    `spread_s` is how far off that might be, as it was said.
    """

    lane: str
    model: str
    prompt: str
    at: float
    promised: float
    ended: float
    kept: bool
    spread_s: float = 0.0


def broken(promises: Sequence[Promise], servers: Mapping[str, Server]) -> dict[str, dict[str, int]]:
    """Return how many promises of each lane were broken by what, beside how many there were."""
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
    """Tell whether a person who came later began first on the server that served this one."""
    starts = [moment for moment, _, prompt in server.starts if prompt == promise.prompt]
    return bool(starts) and any(
        promise.at < accepted_at.get(prompt, 0.0) and moment < starts[-1]
        for moment, _, prompt in server.starts
    )
