"""Turns estimates into ranges as wide as earlier estimates were wrong. Pure.

This is split conformal prediction. The score of an estimate is its error as a share of the time it
looked ahead. The range is the shortest that contains the wanted share of the newest scores. Errors
lean to one side, so equal tails would be wider. If the next estimate is wrong in the same way, its
job ends within the range as often as wanted.

Adaptive conformal inference follows a drift (Gibbs and Candès, 2021): if ranges are missed too
often they contain more of the scores, otherwise fewer.
"""

from bisect import insort
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

KEPT = 200  # newest scores per category
MISSED = 0.17  # share of jobs that may end outside their range: one in five, less a margin
MISSED_MOST = 0.4
STEP = 0.02  # change of that share after a missed range; after a kept one, about a fifth of it
LEAST_SCALE_S = 5.0
MARGIN_S = 0.1  # added at both ends, as no estimate is this exact
ENOUGH = 30  # scores in a category; with fewer, related categories count as well

MEASURED = (-0.15, -0.08, -0.03, 0.0, 0.04, 0.08, 0.15, 0.3, 0.6)
"""Prior scores for a model whose times are known."""
NEW = (-0.75, -0.65, -0.5, -0.3, 0.0, 0.5, 1.2, 2.5, 4.0)
"""Prior scores for a model that never ran there: its kind is a poor guide to its speed."""


class Category(NamedTuple):
    """A class of comparable estimates: of running jobs, or of waiting ones by lane.

    `loads` says whether a load comes first. `measured` says whether the model's times are known
    there. `lane` is "" for running jobs.
    """

    lane: str
    loads: bool
    measured: bool

    @property
    def name(self) -> str:
        """The stored name."""
        loads = "load" if self.loads else "loaded"
        return f"{self.lane or 'running'}/{loads}/{'measured' if self.measured else 'new'}"

    def is_kin_of(self, other: "Category") -> bool:
        """Whether the scores of another category are used when this one has few."""
        return self[1:] == other[1:] and bool(self.lane) == bool(other.lane)


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """The error of an estimate as a share of the time it looked ahead.

    `number` counts the scores of a category. A newer score in the same `slot` replaces an older
    one.
    """

    category: str
    slot: int
    number: int
    value: float


class Range(NamedTuple):
    """The two times between which something probably happens (UNIX seconds)."""

    earliest: float
    latest: float


@dataclass(slots=True)
class _Scores:
    """The newest scores of a category, oldest first, and the share that may miss its range."""

    newest: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    number: int = 0
    missed: float = field(default_factory=lambda: MISSED)


class Calibration:
    """Keeps the scores of all categories and makes ranges from them. Owned by one task."""

    def __init__(self, scores: Iterable[Score] = ()) -> None:
        self._of: dict[Category, _Scores] = {}
        self._ends_of: dict[Category, tuple[float, float]] = {}
        for score in sorted(scores, key=lambda each: each.number):
            category = _category(score.category)
            self._take(category, score.value)
            self._of[category].number = score.number + 1

    def observe(self, category: Category, told_at: float, expected: float, actual: float) -> Score:
        """Record the error of an estimate made at `told_at`. Returns the row to store."""
        value = (actual - expected) / scale_s(told_at, expected)
        number = self._take(category, value)
        return Score(category=category.name, slot=number % KEPT, number=number, value=value)

    def range(self, category: Category, now: float, expected: float) -> Range:
        """Return the range of an expected time; it never starts before `now`."""
        low, high = self._ends(category)
        scale = scale_s(now, expected)
        latest = max(now, expected + high * scale + MARGIN_S)
        return Range(min(latest, max(now, expected + low * scale - MARGIN_S)), latest)

    def _take(self, category: Category, value: float) -> int:
        scores = self._of.setdefault(category, _Scores())
        low, high = self._ends(category)
        missed = not low <= value <= high
        scores.missed = min(MISSED_MOST, max(0.0, scores.missed + STEP * (MISSED - missed)))
        scores.newest.append(value)
        self._ends_of.clear()
        scores.number += 1
        return scores.number - 1

    def _ends(self, category: Category) -> tuple[float, float]:
        known = self._ends_of.get(category)
        if known is None:
            scores = self._of.get(category) or _Scores()
            values = self._known(category, scores)
            known = _shortest(values, 1 - scores.missed)
            self._ends_of[category] = known
        return known

    def _known(self, category: Category, scores: _Scores) -> Sequence[float]:
        """Return the sorted scores to use: its own; if few, also related ones and a prior."""
        if len(scores.newest) >= ENOUGH:
            return sorted(scores.newest)
        kin = [
            value
            for other, its in self._of.items()
            if other != category and category.is_kin_of(other)
            for value in its.newest
        ]
        prior = MEASURED if category.measured else NEW
        values = sorted((*kin, *scores.newest))
        if len(values) < ENOUGH:
            for value in prior:
                insort(values, value)
        return values


def scale_s(now: float, expected: float) -> float:
    """Return the seconds an estimate looks ahead, with a minimum.

    Below it, errors do not shrink with the time looked ahead.
    """
    return max(LEAST_SCALE_S, expected - now)


def _shortest(values: Sequence[float], share: float) -> tuple[float, float]:
    """Return the ends of the shortest range that holds a share of these sorted values."""
    held = min(len(values), ceil(share * (len(values) + 1)))
    return min(
        zip(values, values[held - 1 :], strict=False), key=lambda ends: (ends[1] - ends[0], ends)
    )


def _category(name: str) -> Category:
    lane, loads, measured = name.split("/")
    return Category("" if lane == "running" else lane, loads == "load", measured == "measured")
