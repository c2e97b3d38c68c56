"""What a trial of a cluster showed, beside what people and servers saw."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from tests.chaos.cluster.disturbances import SEPARATES, Disturbance
from tests.chaos.cluster.ledger import Heard, Ledger
from tests.chaos.verdict import Verdict


@dataclass(kw_only=True)
class ClusterVerdict(Verdict):
    """Seconds are those from a signal to the first change that the next leader commits."""

    two_writers: list[str] = field(default_factory=list)
    two_listeners: list[str] = field(default_factory=list)
    failovers_s: dict[str, list[float]] = field(default_factory=dict)
    disturbed: Counter[str] = field(default_factory=Counter)
    terms: int = 0
    circumstances: list[str] = field(default_factory=list)
    """What happened when, for the reader of a breach."""

    @property
    def breaches(self) -> list[str]:
        """Return every breach of a promise."""
        return [*super().breaches, *self.two_writers, *self.two_listeners]

    def judge_cluster(
        self, ledger: Ledger, heard: Sequence[Heard], disturbances: Sequence[Disturbance]
    ) -> None:
        """Count who wrote, who listened, and how long the next process took to follow."""
        self.two_writers += ledger.two_writers()
        self.two_listeners += ledger.two_listeners(heard)
        if self.two_listeners or self.two_writers:
            self.circumstances += [str(each) for each in (*disturbances, *ledger.terms)]
        self.terms = sum(term.held for term in ledger.terms)
        for each in disturbances:
            self.disturbed[each.kind] += 1
            followed_at = ledger.next_change(each.began_at, each.who) if each.leads else None
            if followed_at is not None and self._counts(each, followed_at):
                took_s = followed_at - each.began_at
                self.failovers_s.setdefault(each.kind, []).append(took_s)
        self.stops = self.disturbed["stop"]

    def _counts(self, each: Disturbance, followed_at: float) -> bool:
        """Return whether a role moved because of a disturbance, not of a later one."""
        return each.kind in {"kill", "stop"} or (
            each.kind in SEPARATES and followed_at < each.ended_at + 1.0
        )

    def figures(self) -> dict[str, Any]:
        """Return the figures by name."""
        ends = self._took("kill", "stop")
        apart = self._took(*sorted(SEPARATES))
        return super().figures() | {
            "two_writers": len(self.two_writers),
            "two_listeners": len(self.two_listeners),
            "failover_s_p50": _rounded(median(ends) if ends else None),
            "failover_s_max": _rounded(max(ends, default=None)),
            "failover_kill_s_p50": _rounded(median(self._took("kill") or [0.0])),
            "failover_stop_s_max": _rounded(max(self._took("stop"), default=None)),
            "failover_frozen_s_max": _rounded(max(apart, default=None)),
            "failovers": {kind: len(took) for kind, took in sorted(self.failovers_s.items())},
            "terms": self.terms,
            "disturbed": dict(sorted(self.disturbed.items())),
        }

    def _took(self, *kinds: str) -> list[float]:
        return [seconds for kind in kinds for seconds in self.failovers_s.get(kind, [])]


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 2)
