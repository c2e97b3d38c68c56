"""The lanes of a model queue as one plan empties them; which comes next is rule R1's to say."""

from collections.abc import Sequence
from dataclasses import dataclass

from queueing.jobs import LANES, Job
from queueing.world import ModelView, Waiting


@dataclass(slots=True)
class LaneState:
    """One lane of a model queue; `taken` heads have been started by this plan."""

    view: Waiting
    heads: tuple[Job, ...]
    taken: int = 0

    @property
    def head(self) -> Job | None:
        """The next startable job, None when none is known."""
        return self.heads[self.taken] if self.taken < len(self.heads) else None

    @property
    def left(self) -> int:
        """How many wait after what this plan starts."""
        return self.view.count - self.taken


def lanes_of(view: ModelView) -> list[LaneState]:
    """Return the lanes of a model in which somebody waits, the most favoured first."""
    lanes: Sequence[Waiting] = view.waiting
    if not lanes:
        return []
    if len(lanes) > 1:
        lanes = sorted(lanes, key=lambda waiting: _rank(waiting.lane))
    return [LaneState(w, () if view.paused else w.heads) for w in lanes if w.count > 0]


def _rank(lane: str) -> int:
    return LANES.index(lane) if lane in LANES else len(LANES)
