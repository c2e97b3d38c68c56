"""Fair order of a queue: the next start goes to the person who used the GPUs least of late; pure.

No job is overtaken without end: what starts before it although it came later may take at most
`overtaken_s` together. With one person, or a bound of nothing, it is the order of arrival.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import accumulate
from math import exp, log
from typing import NamedTuple

HALF_LIFE_S = 3600.0
"""In this time what a person used comes to count half."""


class Claim(NamedTuple):
    """A waiting job: its place by arrival, whose it is, and what it will probably take of a GPU.

    It may take `margin_s` longer than that. By the clock it waits `late_s` longer than by arrival.
    One without a person was made for another job, or moved by an admin: it goes first.
    """

    seq: int
    person: str | None
    cost_s: float
    margin_s: float = 0.0
    late_s: float = 0.0


class Overtaker(NamedTuple):
    """A job that has started: its place by arrival, what it took or will take of a GPU, when it came."""

    seq: int
    cost_s: float
    came_at: float


def remaining(seconds: float, age_s: float) -> float:
    """Return what seconds of a GPU still count for after some time."""
    return seconds * exp(-log(2.0) * max(0.0, age_s) / HALF_LIFE_S)


def fair_order(
    claims: Sequence[Claim],
    used_s: Mapping[str, float],
    overtakers: Iterable[Overtaker],
    overtaken_s: float,
) -> list[int]:
    """Return the order in which jobs start, as indexes of the claims, which come by arrival.

    Each start goes to the person who used least, with what the starts before it will take, and of
    equals to the one who came first; each person's own jobs keep their order. If that would let
    more than `overtaken_s` go before the one waiting longest, that one starts instead.
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
            if claims[oldest].late_s > 0:  # a swap of models fell between
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
    """Take a person's first job, and charge them."""
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
    """Return how much later than by arrival each job is, in work of its queue; at most 0 for none.

    By arrival, what came later and has started would have been work that came before.
    """
    ahead_s = [0.0, *accumulate(claim.cost_s for claim in claims)]
    return [
        passed_s - ahead_s[index]
        for index, passed_s in enumerate(_overtaken_by(claims, overtakers))
    ]


def _overtaken_by(claims: Sequence[Claim], overtakers: Iterable[Overtaker]) -> Iterator[float]:
    """Yield what has gone before each job although it came later."""
    started = sorted(overtakers)
    seqs = [each.seq for each in started]
    sums = [0.0, *accumulate(each.cost_s for each in started)]
    for claim in claims:
        yield sums[-1] - sums[bisect_right(seqs, claim.seq)]
