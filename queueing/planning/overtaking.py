"""Overtaking: how many of those who have yet to come to other lanes will go first; pure.

A simulation lets whole requests arrive only: where three lanes each expect half a request before
a job's turn, it knows of none. What it leaves out counts here, by parts.
"""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import NamedTuple

from queueing.planning.lanes import Lane, Spent, cost, levelled, rank
from queueing.planning.simulated_queue import SimulatedQueue


class Overtaking(NamedTuple):
    """How many are expected to come and go first, and how many of them no simulation has let in.

    Of `rushes` those who come together are one.
    """

    number: float
    parts: float
    rushes: float


def overtaking(
    line: SimulatedQueue,
    position: int,
    at: float,
    *,
    lines: Sequence[SimulatedQueue],
    spent: Spent,
    weights: Mapping[str, int],
) -> Overtaking:
    """Return how many arrivals are expected before the job at that position.

    `lines` are those of the model, `at` is when the job starts. A lane lets only as many go first
    as it has turns before that job's.
    """
    others = [other for other in lines if other is not line]
    waiting = [line.view.lane, *(other.view.lane for other in others if other.view.count)]
    before = levelled(line.model, waiting, spent)

    def lane(each: SimulatedQueue) -> Lane:
        name, count = each.view.lane, each.view.count
        return Lane(name, count, before.get(name, 0), cost(name, weights))

    due = lane(line).due(position)
    number = parts = rushes = 0.0
    for other in others:
        goes_first = rank(other.view.lane) < rank(line.view.lane)
        turns = lane(other).turns(due if goes_first else due - 1)
        expected = other.expected(at)
        whole, part = divmod(expected, 1.0)
        if other.view.count + whole < turns:
            parts += part
        most = max(0.0, float(turns - other.view.count))
        number += min(expected, most)
        rushes += min(other.rushes(at), most)
    return Overtaking(number, parts, rushes)


def spread(expected: float) -> float:
    """Return how far the number of independent arrivals will be off, on average."""
    return min(2.0 * expected, 0.8 * sqrt(expected))
