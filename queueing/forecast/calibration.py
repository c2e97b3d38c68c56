"""Calibration: ranges for estimates, as wide as earlier estimates were wrong; pure.

Split conformal prediction: the score of an estimate is how far it was off, as a share of the time it
looked ahead. The range is the shortest that holds the wanted share of the newest scores: errors lean
to one side, so that equal tails would be wider. If the next estimate is wrong in the same way, its job
ends within the range as often as wanted. Adaptive conformal inference follows a drift: missed too
often, the range holds more of the scores, otherwise fewer (Gibbs and Candès, 2021).
"""

from bisect import insort
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

KEPT = 200  # newest scores of a category
MISSED = 0.17  # of the jobs may end outside their range; less than one in five, for luck
MISSED_MOST = 0.4
STEP = 0.02  # by how much one missed range changes that share; a kept one by a fifth of it
LEAST_SCALE_S = 5.0
MARGIN_S = 0.1  # at both ends: what no estimate is exact to
ENOUGH = 30  # scores of a category of its own, before which those of its kin count, too

MEASURED = (-0.15, -0.08, -0.03, 0.0, 0.04, 0.08, 0.15, 0.3, 0.6)
"""Scores that stand in for those of a model whose times are known, until there are some."""
NEW = (-0.75, -0.65, -0.5, -0.3, 0.0, 0.5, 1.2, 2.5, 4.0)
"""The same of a model that never ran there: its kind says little about its speed."""


class Category(NamedTuple):
    """What estimates are alike: of jobs that run, or wait in a lane, with a load or without.

    `measured` says whether the model's times are known there. `lane` is "" for running jobs.
    """

    lane: str
    loads: bool
    measured: bool

    @property
    def name(self) -> str:
        """How it is stored."""
        loads = "load" if self.loads else "loaded"
        return f"{self.lane or 'running'}/{loads}/{'measured' if self.measured else 'new'}"

    def is_kin_of(self, other: "Category") -> bool:
        """Whether scores of the other say something about it."""
        return self[1:] == other[1:] and bool(self.lane) == bool(other.lane)


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """How far off an estimate was, as a share of the time it looked ahead.

    `number` counts those of its category; a newer one in the same `slot` replaces an older one.
    """

    category: str
    slot: int
    number: int
    value: float


class Range(NamedTuple):
    """Between which two moments something probably happens (UNIX seconds)."""

    earliest: float
    latest: float


@dataclass(slots=True)
class _Scores:
    """The newest scores of a category, in their order, and the share outside of its range."""

    newest: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    number: int = 0
    missed: float = field(default_factory=lambda: MISSED)


class Calibration:
    """Keeps the scores of all categories, and makes ranges from them. Owned by one task."""

    def __init__(self, scores: Iterable[Score] = ()) -> None:
        self._of: dict[Category, _Scores] = {}
        self._ends_of: dict[Category, tuple[float, float]] = {}
        for score in sorted(scores, key=lambda each: each.number):
            category = _category(score.category)
            self._take(category, score.value)
            self._of[category].number = score.number + 1

    def observe(self, category: Category, told_at: float, expected: float, actual: float) -> Score:
        """Learn how far off an estimate was, made at `told_at`; return the row to store."""
        value = (actual - expected) / scale_s(told_at, expected)
        number = self._take(category, value)
        return Score(category=category.name, slot=number % KEPT, number=number, value=value)

    def range(self, category: Category, now: float, expected: float) -> Range:
        """Return the range of an expected moment, which begins no sooner than now."""
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
        """Return what is known in order: its own scores; with few, those of its kin and a prior."""
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
    """Return how long an estimate looks ahead; below some seconds errors do not shrink with it."""
    return max(LEAST_SCALE_S, expected - now)


def _shortest(values: Sequence[float], share: float) -> tuple[float, float]:
    """Return the ends of the shortest range that holds a share of these values, which are in order."""
    held = min(len(values), ceil(share * (len(values) + 1)))
    return min(
        zip(values, values[held - 1 :], strict=False), key=lambda ends: (ends[1] - ends[0], ends)
    )


def _category(name: str) -> Category:
    lane, loads, measured = name.split("/")
    return Category("" if lane == "running" else lane, loads == "load", measured == "measured")
