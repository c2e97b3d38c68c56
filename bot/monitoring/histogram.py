"""Times in fixed classes: histograms that can be added, and the quantiles they give. Pure.

Each class is a tenth wider than the one before it, so a quantile is off by at most a twentieth. What
takes a tenth of a second or less is in the first one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp, floor, log

FIRST_S = 0.1
_WIDER = log(1.1)
_LAST = 210  # half a year and beyond


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many times fell into each class, by its number."""

    counts: Mapping[int, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The number of times."""
        return sum(self.counts.values())

    def quantile(self, share: float) -> float | None:
        """Return the time below which that share of the times lies, None without any."""
        rest = share * self.total
        for number in sorted(self.counts):
            rest -= self.counts[number]
            if rest <= 0:
                return middle_s(number)
        return None

    def __add__(self, other: "Histogram") -> "Histogram":
        """Return the histogram of both."""
        counts = dict(self.counts)
        for number, count in other.counts.items():
            counts[number] = counts.get(number, 0) + count
        return Histogram(counts)

    def written(self) -> str:
        """Return it as text: `12:3 40:1`."""
        return " ".join(f"{number}:{self.counts[number]}" for number in sorted(self.counts))

    @classmethod
    def read(cls, text: str) -> "Histogram":
        """Return the histogram that `written` wrote."""
        pairs = (pair.partition(":") for pair in text.split())
        return cls({int(number): int(count) for number, _, count in pairs})

    @classmethod
    def of(cls, seconds: float) -> "Histogram":
        """Return the histogram of one time."""
        return cls({class_of(seconds): 1})


def class_of(seconds: float) -> int:
    """Return the number of the class of a time."""
    if seconds <= FIRST_S:
        return 0
    return min(_LAST, 1 + floor(log(seconds / FIRST_S) / _WIDER))


def middle_s(number: int) -> float:
    """Return the time in the middle of a class."""
    return FIRST_S / 2 if number == 0 else FIRST_S * exp((number - 0.5) * _WIDER)
