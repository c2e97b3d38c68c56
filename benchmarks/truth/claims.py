"""What a message claims about the servers, and what the servers recorded about their work."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.truth.crowd import HOSTS, Server

_CLAIMS: Mapping[str, re.Pattern[str]] = {
    "loading": re.compile(r"(?m)^(?:📦 )?loading (?P<model>\S+) on (?P<host>[\w-]+)"),
    "loaded first": re.compile(r"(?m)^(?P<model>\S+) is loading on (?P<host>[\w-]+) first"),
    "let in first": re.compile(
        r"(?m)^(?P<model>\S+) has waited longer and gets its turn on (?P<host>[\w-]+) first"
    ),
    "kept": re.compile(r"(?m)^(?P<model>\S+) is next on (?P<host>[\w-]+), as"),
    "busy": re.compile(r"(?m)^waiting for (?P<model>\S+) to finish on (?P<host>[\w-]+)$"),
    "offline": re.compile(r"(?m)^(?P<host>[\w-]+) is offline"),
    "failed": re.compile(r"(?m)^loading (?P<model>\S+) failed"),
    "pausing": re.compile(r"(?m)^pausing after a failed attempt"),
    "drawing": re.compile(r"(?m)^🎨 drawing with"),
    "waiting": re.compile(r"(?m)^⏳ \S+ · #\d+ in line"),
}


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing a message says; `wish` is the job's prompt and `own` its model."""

    kind: str
    wish: str
    own: str
    model: str = ""
    host: str = ""


def claims(text: str, wish: str, own: str) -> Iterator[Claim]:
    """Yield what the message of a job of the model `own` says about the servers."""
    for kind, pattern in _CLAIMS.items():
        found = pattern.search(text)
        if found is not None:
            yield Claim(kind, wish, own, **found.groupdict())


class Truth:
    """Judges claims, from the servers alone."""

    def __init__(self, servers: Mapping[str, Server]) -> None:
        self._servers = servers
        self._on = {host: servers[backend] for host, (backend, _) in HOSTS.items()}

    def holds(self, claim: Claim) -> bool | None:  # noqa: PLR0911  # one for each kind
        """Return whether a claim is true now; None if that depends on what comes next."""
        drawn = any(server.draws(claim.wish) for server in self._servers.values())
        match claim.kind:
            case "let in first" | "kept":
                return None
            case "drawing":
                return drawn or self.ended_at(claim.wish) is not None
            case "failed":
                return not any(
                    claim.model in {*s.memory, *s.loading} for s in self._servers.values()
                )
            case "offline":
                return not self._on[claim.host].up
            case "busy":
                return any(each.model == claim.model for each in self._on[claim.host].running)
            case "loading" | "loaded first":
                return claim.model in self._on[claim.host].loading
        return not drawn

    def ended_at(self, wish: str) -> float | None:
        """Return when a server finished a request, in the loop's time."""
        ends = [s.done_at[wish] for s in self._servers.values() if wish in s.done_at]
        return min(ends, default=None)

    def came_true(self, claim: Claim, at: float) -> bool:
        """Return whether what a claim named came before the job's own model.

        What failed before it could begin counts as first: from then on the message must name another.
        """
        server = self._on[claim.host]
        first = bisect_left(server.starts, at, key=lambda start: start[0])
        for moment, model, _ in server.starts[first:]:
            if model == claim.model:
                return True
            if model == claim.own:
                failed = (each for each, name in server.upsets if name in {claim.model, ""})
                return any(at <= each <= moment for each in failed)
        return True
