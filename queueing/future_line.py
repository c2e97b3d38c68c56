"""One line of a forecast: the jobs before they start, those still to come, and the known starts.

Pure bookkeeping; decides nothing.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from math import expm1, inf, log1p

from queueing.jobs import Job, stand_in
from queueing.world import ModelView, Waiting

RUSH_S = 240.0  # within this time a rate of arrivals is expected to fall to a third
LEAST_RUSH_S = 1.0
RUSH_SHARE = 4.0  # of the time arrivals have been watched: what has just begun says little
LASTING_SHARE = 0.5  # of the time for which a line has not been served to its end


@dataclass(frozen=True, slots=True)
class Started:
    """A start that will come: when, and on which backend."""

    at: float
    backend: str


@dataclass(slots=True)
class Line:
    """The future of one line: its jobs before they start, and the starts that are known.

    Further jobs come at the rate of the present, less and less of them the further ahead: who asks
    does so in a rush more often than in a lull, and no rush lasts. Only where the line has long been
    growing are they expected for longer, by half the time its oldest job has waited.
    """

    model: str
    view: Waiting
    now: float  # of the forecast's beginning
    rate_per_s: float  # of further arrivals
    rush_s: float = RUSH_S  # within which that falls to a third
    starts: list[Started] = field(default_factory=list)

    def count(self, moment: float) -> int:
        """Return how many will have come by then, started ones included."""
        subsided = -expm1((self.now - moment) / self.rush_s)
        return self.view.count + int(self.rate_per_s * self.rush_s * subsided + 1e-9)

    def begun(self, moment: float) -> int:
        """Return how many of the known starts will have happened before then."""
        return bisect_left(self.starts, moment, key=lambda start: start.at)

    def next_arrival_at(self) -> float:
        """Return when the first job behind those that have started comes; it may be past."""
        return self._arrives_at(len(self.starts))

    def _arrives_at(self, index: int) -> float:
        most = self.rate_per_s * self.rush_s
        ahead = index - self.view.count + 1
        return self.now - self.rush_s * log1p(-ahead / most) if ahead < most else inf

    def job(self, index: int) -> Job:
        """Return the job at that place; beyond the known heads one that stands in for it."""
        heads = self.view.heads
        if index < len(heads):
            return heads[index]
        if index >= self.view.count:
            return self._stand_in(self._arrives_at(index))
        first_at = heads[-1].queued_at if heads else self.view.oldest_at
        share = (index + 1 - len(heads)) / max(1, self.view.count - len(heads))
        return self._stand_in(first_at + share * (self.now - first_at))

    def _stand_in(self, queued_at: float) -> Job:
        """Return a job that takes the place of one the snapshot does not name."""
        return stand_in(0, self.model, queued_at, lane=self.view.lane)


def lines_of(model: ModelView, now: float, watched_s: float = inf) -> list[Line]:
    """Return the lines of a model, with further arrivals at the end of the longest."""
    views = model.waiting or (Waiting(lane="normal", count=0, heads=(), oldest_at=now),)
    longest = max(views, key=lambda view: view.count)
    lasting_s = LASTING_SHARE * min(now - longest.oldest_at, watched_s)
    rush_s = max(LEAST_RUSH_S, min(max(RUSH_S, lasting_s), RUSH_SHARE * watched_s))
    return [
        Line(model.name, view, now, model.rate_per_s if view is longest else 0.0, rush_s)
        for view in views
    ]
