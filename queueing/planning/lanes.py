"""The lanes of a model's queue: whose turn it is, and a job's place in the resulting order. Pure.

Each start costs its lane an amount: the greater the lane's weight, the smaller the amount. The lane
that has spent least is next. What each lane has spent and how many jobs wait in it determine the
order of all future starts, so a place can be calculated. Only new arrivals can raise a place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import lcm

from queueing.core.jobs import LANES, LATER, Job
from queueing.core.snapshot import ModelView, Waiting

Spent = Mapping[tuple[str, str], int]
"""What each competing lane has spent, by model and lane, minus the smallest amount."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane as needed to calculate turns: how many of its jobs could start."""

    name: str
    count: int
    spent: int = 0
    cost: int = 2  # of one start; even

    def due(self, number: int) -> int:
        """Return when the lane's job of that number is due, in units of cost; the least is next."""
        return self.spent + self.cost * number - self.cost // 2

    def turns(self, until: int) -> int:
        """Return how many of its turns are due by then."""
        return (until - self.spent + self.cost // 2) // self.cost


@dataclass(slots=True)
class LaneState:
    """One lane of a model's queue; `taken` heads have been started by this plan."""

    view: Waiting
    heads: tuple[Job, ...]
    spent: int = 0
    cost: int = 2
    taken: int = 0

    @property
    def head(self) -> Job | None:
        """The next startable job, None if unknown."""
        return self.heads[self.taken] if self.taken < len(self.heads) else None

    @property
    def left(self) -> int:
        """How many jobs wait after the starts of this plan."""
        return self.view.count - self.taken

    @property
    def competes(self) -> bool:
        """Whether it takes turns: not while all its jobs pause.

        More jobs may follow its known heads.
        """
        return bool(self.heads) and self.left > 0

    @property
    def due(self) -> int:
        """When its next job is due; the smallest is next."""
        return self.spent + self.cost // 2


def lanes_of(
    view: ModelView, lanes: Sequence[Waiting], spent: Spent, weights: Mapping[str, int]
) -> list[LaneState]:
    """Return the lanes of a model with waiting jobs, the most favoured first."""
    if len(lanes) < 2:
        return [LaneState(w, () if view.paused else w.heads) for w in lanes if w.count > 0]
    states = [
        LaneState(w, () if view.paused else w.heads)
        for w in sorted(lanes, key=lambda waiting: rank(waiting.lane))
        if w.count > 0
    ]
    names = [state.view.lane for state in states if state.heads]
    before = levelled(view.name, names, spent)
    for state in states:
        state.spent = before.get(state.view.lane, 0)
        state.cost = cost(state.view.lane, weights)
    return states


def levelled(model: str, lanes: Sequence[str], spent: Spent) -> dict[str, int]:
    """Return what each of these lanes has spent; a new lane begins at the smallest amount."""
    known = {lane: spent[model, lane] for lane in lanes if (model, lane) in spent}
    least = min(known.values(), default=0)
    return {lane: known.get(lane, least) - least for lane in lanes}


def cost(lane: str, weights: Mapping[str, int]) -> int:
    """Return what one start costs a lane."""
    unit = _unit(*weights.values())
    # A deferred job takes turns only once it must start, and then as often as the most favoured.
    return unit // max(weights.values()) if lane == LATER else unit // weights.get(lane, 1)


@lru_cache(maxsize=64)
def _unit(*weights: int) -> int:
    return 2 * lcm(*weights)


def competing(
    model: str, counts: Mapping[str, int], spent: Spent, weights: Mapping[str, int]
) -> list[Lane]:
    """Return the lanes of a model in which that many jobs could start, the most favoured first."""
    names = sorted((lane for lane, count in counts.items() if count > 0), key=rank)
    before = levelled(model, names, spent)
    return [Lane(name, counts[name], before[name], cost(name, weights)) for name in names]


def place(lanes: Sequence[Lane], lane: str, number: int) -> int:
    """Return 1 + how many jobs start before the lane's job of that number, without new arrivals."""
    index = next(i for i, each in enumerate(lanes) if each.name == lane)
    due = lanes[index].due(number)
    before = number
    for i, other in enumerate(lanes):
        if i != index:
            until = due if i < index else due - 1  # on a tie the more favoured lane goes first
            before += max(0, min(other.turns(until), other.count))
    return before


def rank(lane: str) -> int:
    """Return the order of a lane, the most favoured first."""
    return LANES.index(lane) if lane in LANES else len(LANES)
