"""Fair order of a queue: the next start goes to the person with the least recent usage. Pure.

No job is overtaken indefinitely: later arrivals that start before it may take at most
`overtaken_s` in total. With one person or a bound of 0, this is the order of arrival.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import accumulate
from math import exp, log
from typing import NamedTuple

HALF_LIFE_S = 3600.0
"""Half-life of a person's recent usage."""


class Claim(NamedTuple):
    """A waiting job: its place by arrival, its person, and the GPU seconds it will probably take.

    It may take up to `margin_s` longer. `late_s` is how much later it starts than by arrival,
    measured by the clock. A claim without a person goes first: its job was made for another job, or
    an admin moved it.
    """

    seq: int
    person: str | None
    cost_s: float
    margin_s: float = 0.0
    late_s: float = 0.0


class Overtaker(NamedTuple):
    """A started job: its place by arrival, its GPU seconds so far or expected, its arrival time."""

    seq: int
    cost_s: float
    came_at: float


def remaining(seconds: float, age_s: float) -> float:
    """Return how many of these GPU seconds still count after `age_s`."""
    return seconds * exp(-log(2.0) * max(0.0, age_s) / HALF_LIFE_S)


def fair_order(
    claims: Sequence[Claim],
    used_s: Mapping[str, float],
    overtakers: Iterable[Overtaker],
    overtaken_s: float,
) -> list[int]:
    """Return the order in which jobs start, as indexes of `claims`, which are in order of arrival.

    Each start goes to the person with the least usage, including the starts placed before it. Ties
    go to the earlier arrival, and each person's own jobs keep their order. If more than
    `overtaken_s` would then go before the longest-waiting job, that job starts instead.
    """
    waits: dict[str | None, deque[int]] = {}
    for index, claim in enumerate(claims):
        waits.setdefault(claim.person, deque()).append(index)
    heap = [(_used(person, used_s), mine[0], person) for person, mine in waits.items()]
    heapify(heap)
    before = list(_overtaken_by(claims, overtakers))
    order: list[int] = []
    placed, placed_s, arrived_s, oldest = [False] * len(claims), 0.0, 0.0, 0
    while heap:
        while placed[oldest]:
            arrived_s += claims[oldest].cost_s
            oldest += 1
        _, index, person = heap[0]
        if index != oldest:
            late_s = before[oldest] + placed_s - arrived_s
            if claims[oldest].late_s > 0:  # a model swap came between
                late_s = max(late_s, claims[oldest].late_s + placed_s)
            if late_s + claims[index].cost_s + claims[index].margin_s > overtaken_s:
                index, person = oldest, claims[oldest].person
        order.append(index)
        placed[index] = True
        placed_s += claims[index].cost_s
        _take(heap, waits, person, claims[index].cost_s)
    return order


_Entry = tuple[float, int, str | None]


def _used(person: str | None, used_s: Mapping[str, float]) -> float:
    return -1.0 if person is None else used_s.get(person, 0.0)


def _take(
    heap: list[_Entry], waits: Mapping[str | None, deque[int]], person: str | None, cost_s: float
) -> None:
    """Remove a person's first job from the heap and add its cost to their usage."""
    mine = waits[person]
    mine.popleft()
    at = 0 if heap[0][2] == person else next(i for i, each in enumerate(heap) if each[2] == person)
    used = heap[at][0] + (0.0 if person is None else cost_s)
    if mine:
        entry = (used, mine[0], person)
        if at == 0:
            heapreplace(heap, entry)
        else:
            heap[at] = entry
            heapify(heap)
    elif at == 0:
        heappop(heap)
    else:
        del heap[at]
        heapify(heap)


def behind_by(claims: Sequence[Claim], overtakers: Iterable[Overtaker]) -> list[float]:
    """Return how many GPU seconds later each job starts than by arrival; 0 or less if not later.

    By arrival, the overtakers would have come after the job instead of before it.
    """
    ahead_s = [0.0, *accumulate(claim.cost_s for claim in claims)]
    return [
        passed_s - ahead_s[index]
        for index, passed_s in enumerate(_overtaken_by(claims, overtakers))
    ]


def _overtaken_by(claims: Sequence[Claim], overtakers: Iterable[Overtaker]) -> Iterator[float]:
    """Yield for each job the total cost of the started jobs that came after it."""
    started = sorted(overtakers)
    seqs = [each.seq for each in started]
    sums = [0.0, *accumulate(each.cost_s for each in started)]
    for claim in claims:
        yield sums[-1] - sums[bisect_right(seqs, claim.seq)]
