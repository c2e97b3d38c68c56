"""One line of a forecast: its waiting jobs, future arrivals, and the known starts.

Pure bookkeeping; decides nothing.
"""

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from math import expm1, inf, log1p
from typing import NamedTuple

from queueing.core.jobs import Job, stand_in
from queueing.core.quick import quick
from queueing.core.world import Flow, ModelView, Waiting
from queueing.planning.lanes import rank

RUSH_S = 240.0  # within this time a rate of arrivals is expected to fall to a third
LEAST_RUSH_S = 1.0
RUSH_SHARE = 4.0  # of the time arrivals have been watched: a recent beginning says little
STEADY = 2.0  # this many simultaneous arrivals are a rush; a stream of fewer is expected to last
LASTING_RUSHES = 5.0  # as many times as long as a rush
HEADS = 3  # known heads shown to the planner: any may be the oldest of its line
LASTING_SHARE = 0.5  # of the time for which a line has not been served to its end

NO_ARRIVALS = Flow(0.0)
_ROUNDING = 1e-5  # of an arrival: UNIX seconds are no finer, and an arrival of now counts


_waiting = quick(Waiting)


class Closed(NamedTuple):
    """A time in which all hosts of a model have quiet hours."""

    begins_at: float
    ends_at: float


class Started(NamedTuple):
    """A future start: when, and on which backend."""

    at: float
    backend: str


@dataclass(slots=True)
class SimulatedQueue:
    """The simulation of one line: its jobs before they start, and the starts that are known.

    Further jobs arrive at the present rate, which declines the further ahead it looks: requests
    come in a rush more often than in a lull, and no rush lasts. Only if the line has long been
    growing are they expected for longer, by half the time its oldest job has waited. While all its
    hosts have quiet hours they keep coming, and what has kept coming lasts for a while after them.
    """

    model: str
    view: Waiting
    now: float  # of the forecast's beginning
    rate_per_s: float  # of further arrivals
    rush_s: float = RUSH_S  # within which that falls to a third
    lull_s: float = 0.0  # before the first of them
    closed: Closed | None = None
    starts: list[Started] = field(default_factory=list)
    shown: dict[int, Job] = field(default_factory=dict)  # stand-ins, by place
    joined: dict[int, Job] = field(default_factory=dict)  # those who came since, by place

    def start(self, started: Started) -> None:
        """Note that its next job starts."""
        self.shown.pop(len(self.starts), None)
        self.starts.append(started)

    def waiting(self, moment: float, slots: int = 0) -> Waiting | None:
        """Return the line in the planner's terms at that moment, None if it is empty.

        It shows what may start in as many slots, and one that goes on waiting.
        """
        view, done, count = self.view, len(self.starts), self.count(moment)
        if done >= count:
            return None
        pausing = (
            view.count > 0
            and not view.heads
            and (view.next_start_at is None or view.next_start_at > moment)
        )
        known = min(done + HEADS, len(view.heads))
        last = done if pausing else min(max(done + slots + 1, known), count)
        return _waiting(
            lane=view.lane,
            count=count - done,
            heads=tuple([self.job(index) for index in range(done, last)]),
            oldest_at=view.oldest_at,
            next_start_at=view.next_start_at,
            held=view.held,
        )

    def count(self, moment: float) -> int:
        """Return how many will have arrived by then, started ones included."""
        return self.view.count + int(self.expected(moment) + _ROUNDING)

    def has_waiting(self, moment: float) -> bool:
        """Return whether any job of it waits at that moment."""
        done = len(self.starts)
        return done < self.view.count or done < self.count(moment)

    @property
    def next_head(self) -> Job | None:
        """The next job to start, if it is known."""
        heads, done = self.view.heads, len(self.starts)
        return heads[done] if done < len(heads) else self.joined.get(done)

    def join(self, job: Job, place: int, more: int) -> None:
        """Let a job in at a place behind all others; with it, so many more than expected wait."""
        heads = self.view.heads
        if place == len(heads):
            heads = (*heads, job)
        else:
            self.joined[place] = self.shown[place] = job
        self.view = replace(self.view, count=self.view.count + more, heads=heads)

    def expected(self, moment: float) -> float:
        """Return how many arrivals are expected by then, in whole ones and parts of one."""
        if self.closed is None:  # as in `_come_in`, which would cost a call
            late_s = min(0.0, -(moment - self.now - self.lull_s))
            return self.rate_per_s * self.rush_s * -expm1(late_s / self.rush_s)
        if moment <= self.closed.begins_at:
            return self._come_in(moment - self.now - self.lull_s, self.rush_s)
        begins_at, ends_at = self.closed
        before = self._come_in(begins_at - self.now - self.lull_s, self.rush_s)
        steady = self.rate_per_s * (min(moment, ends_at) - begins_at)
        return before + steady + self._come_in(moment - ends_at, LASTING_RUSHES * self.rush_s)

    def _come_in(self, seconds: float, rush_s: float) -> float:
        """Return how many are expected within a time, in `rush_s` of which their rate falls."""
        return self.rate_per_s * rush_s * -expm1(min(0.0, -seconds) / rush_s)

    def rushes(self, moment: float) -> float:
        """Return how many independent arrivals are expected by then: those of a rush are one."""
        if self.rate_per_s <= 0:
            return 0.0
        together = 1 + 2 * self.lull_s * self.rate_per_s
        subsided = -expm1(min(0.0, self.now - moment) / self.rush_s)
        return self.rate_per_s / together * self.rush_s * subsided

    def begun(self, moment: float) -> int:
        """Return how many of the known starts will have happened before then."""
        return bisect_left(self.starts, moment, key=lambda start: start.at)

    def next_arrival_at(self) -> float:
        """Return when the first job behind those that have started arrives; it may be past."""
        return self._arrives_at(len(self.starts))

    def _arrives_at(self, index: int) -> float:
        ahead = float(index - self.view.count + 1)
        if self.closed is None or ahead < self.expected(self.closed.begins_at):
            return self.now + self.lull_s + self._in_which(ahead, self.rush_s)
        ends_at = self.closed.ends_at
        by_end = self.expected(ends_at)
        if ahead <= by_end:
            return ends_at - (by_end - ahead) / self.rate_per_s
        return ends_at + self._in_which(ahead - by_end, LASTING_RUSHES * self.rush_s)

    def _in_which(self, ahead: float, rush_s: float) -> float:
        """Return the time in which so many come; inf for never."""
        most = self.rate_per_s * rush_s
        return inf if ahead >= most else -rush_s * log1p(-ahead / most)

    def job(self, index: int) -> Job:
        """Return the job at that place; beyond the known heads a stand-in."""
        heads = self.view.heads
        if index < len(heads):
            return heads[index]
        job = self.shown.get(index)
        if job is None:
            job = self.shown[index] = self._stand_in(index)
        return job

    def _stand_in(self, index: int) -> Job:
        """Return a job in place of one the snapshot does not name."""
        return stand_in(0, self.model, self._queued_at(index), lane=self.view.lane)

    def _queued_at(self, index: int) -> float:
        """Return when the job at a place beyond the known heads probably arrived, or will."""
        if index >= self.view.count:
            return self._arrives_at(index)
        heads = self.view.heads
        first_at = heads[-1].queued_at if heads else self.view.oldest_at
        share = (index + 1 - len(heads)) / max(1, self.view.count - len(heads))
        return first_at + share * (self.now - first_at)


def lines_of(
    model: ModelView, now: float, watched_s: float = inf, closed: Closed | None = None
) -> list[SimulatedQueue]:
    """Return the lines of a model: of the lanes with waiting or expected jobs."""
    flows = dict(model.flows)
    views = {view.lane: view for view in model.waiting}
    if not flows:
        most = max(model.waiting, key=lambda view: view.count, default=None)
        flows = {"normal" if most is None else most.lane: Flow(model.rate_per_s)}
    for lane in flows.keys() - views.keys():
        views[lane] = Waiting(lane=lane, count=0, heads=(), oldest_at=now)
    longest = max(views.values(), key=lambda view: view.count)
    lasting_s = LASTING_SHARE * min(now - longest.oldest_at, watched_s)
    rush_s = max(LEAST_RUSH_S, min(max(RUSH_S, lasting_s), RUSH_SHARE * watched_s))
    several = len(flows) > 1
    lines = [
        _line(model.name, views[lane], now, flows.get(lane, NO_ARRIVALS), rush_s, several=several)
        for lane in sorted(views, key=rank)
    ]
    for line in lines:
        line.closed = closed
    return lines


def _line(
    model: str, view: Waiting, now: float, flow: Flow, rush_s: float, *, several: bool
) -> SimulatedQueue:
    """Return one line; if there are several, arrivals in one make others wait.

    Then it matters which arrivals come together: such a rush is proportionally rarer, and a steady
    stream lasts.
    """
    if not several:
        return SimulatedQueue(model, view, now, flow.per_s, rush_s)
    if flow.together < STEADY:
        rush_s *= LASTING_RUSHES
    lull_s = (flow.together - 1) / 2 / flow.per_s if flow.per_s > 0 else 0.0
    return SimulatedQueue(model, view, now, flow.per_s, rush_s, lull_s)
