"""One queue of a forecast: its waiting jobs, and the simulated starts.

Pure bookkeeping without decisions. It assumes no further arrivals: waiting people do not ask again,
and the average effect of arrivals is part of the calibrated range.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NamedTuple

from queueing.core.constructors import quick
from queueing.core.jobs import Job, stand_in
from queueing.core.snapshot import ModelView, Waiting
from queueing.planning.lanes import rank

HEADS = 3  # heads always shown to the planner: any may be the oldest of its queue


_waiting = quick(Waiting)


class Started(NamedTuple):
    """A future start: its time and backend."""

    at: float
    backend: str


@dataclass(slots=True)
class SimulatedQueue:
    """The simulation of one queue: its jobs before they start, and its simulated starts."""

    model: str
    view: Waiting
    now: float  # when the forecast begins
    starts: list[Started] = field(default_factory=list)
    shown: dict[int, Job] = field(default_factory=dict)  # stand-ins, by place

    def start(self, started: Started) -> None:
        """Record the start of its next job."""
        self.shown.pop(len(self.starts), None)
        self.starts.append(started)

    def waiting(self, moment: float, slots: int = 0) -> Waiting | None:
        """Return the queue as the planner sees it at that moment, None if it is empty.

        It contains the jobs that could start in `slots` free slots, and one that keeps waiting.
        """
        view, done = self.view, len(self.starts)
        if done >= view.count:
            return None
        pausing = not view.heads and (view.next_start_at is None or view.next_start_at > moment)
        known = min(done + HEADS, len(view.heads))
        last = done if pausing else min(max(done + slots + 1, known), view.count)
        return _waiting(
            lane=view.lane,
            count=view.count - done,
            heads=tuple([self.job(index) for index in range(done, last)]),
            oldest_at=view.oldest_at,
            next_start_at=view.next_start_at,
            held=view.held,
        )

    @property
    def left(self) -> int:
        """How many of its jobs have not started."""
        return self.view.count - len(self.starts)

    @property
    def next_head(self) -> Job | None:
        """The next job to start, if it is known."""
        heads, done = self.view.heads, len(self.starts)
        return heads[done] if done < len(heads) else None

    def begun(self, moment: float) -> int:
        """Return how many of the simulated starts happen before `moment`."""
        return bisect_left(self.starts, moment, key=lambda start: start.at)

    def job(self, index: int) -> Job:
        """Return the job at that place; beyond the known heads, a stand-in."""
        heads = self.view.heads
        if index < len(heads):
            return heads[index]
        job = self.shown.get(index)
        if job is None:
            job = self.shown[index] = self._stand_in(index)
        return job

    def _stand_in(self, index: int) -> Job:
        return stand_in(0, self.model, self._queued_at(index), lane=self.view.lane)

    def _queued_at(self, index: int) -> float:
        """Estimate when the job at a place beyond the known heads arrived."""
        heads = self.view.heads
        first_at = heads[-1].queued_at if heads else self.view.oldest_at
        share = (index + 1 - len(heads)) / max(1, self.view.count - len(heads))
        return first_at + share * (self.now - first_at)


def queues_of(model: ModelView, now: float) -> list[SimulatedQueue]:
    """Return the queues of a model in which jobs wait."""
    return [
        SimulatedQueue(model.name, view, now)
        for view in sorted(model.waiting, key=lambda view: rank(view.lane))
    ]
