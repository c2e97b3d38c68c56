"""Quiet hours: hours of the week in which a host's owner wants it for other things.

Plain values. Local hours are converted to UNIX seconds here, so no other module handles time zones.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from math import inf
from zoneinfo import ZoneInfo

AHEAD = timedelta(days=8)  # look-ahead: every window of a week, including one over midnight
DAY_MIN = 24 * 60
WEEK_S = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class QuietSpan:
    """A span of quiet hours, in UNIX seconds."""

    begins_at: float
    ends_at: float


@dataclass(frozen=True, slots=True)
class WeeklyWindow:
    """Weekly hours by the local clock, in minutes after midnight.

    `days` are the weekdays it starts on; Monday is 0. A window whose end is not after its start
    ends on the next day.
    """

    days: frozenset[int]
    begins_min: int
    ends_min: int


@dataclass(frozen=True, slots=True)
class QuietHours:
    """The windows of a host, and its time zone."""

    windows: tuple[WeeklyWindow, ...]
    zone: str

    def coming(self, now: float) -> tuple[QuietSpan, ...]:
        """Return the spans of the next eight days that have not ended, the soonest first.

        Windows that touch become one span. A window starts when the clock first reads its start or
        later, and ends when it last reads its end. An hour skipped in spring shortens it, and an
        hour repeated in autumn lengthens it.
        """
        hour = int(now // 3600)
        return tuple(quiet for quiet in _spans(self, hour) if quiet.ends_at > now)

    def longest_open_s(self, now: float) -> float:
        """Return the longest time in seconds between two spans, 0 if it is always quiet."""
        spans = self.coming(now)
        if not spans:
            return inf
        gaps = [later.begins_at - one.ends_at for one, later in pairwise(spans)]
        (first, *_) = spans
        return max(gaps, default=max(0.0, WEEK_S - (first.ends_at - first.begins_at)))


@lru_cache(maxsize=256)
def _spans(hours: QuietHours, hour: int) -> tuple[QuietSpan, ...]:
    """Return the spans around an hour. Cached, because every snapshot asks for them."""
    zone = ZoneInfo(hours.zone)
    today = datetime.fromtimestamp(hour * 3600, UTC).astimezone(zone).date()
    days = [today + timedelta(days=day) for day in range(-1, AHEAD.days + 1)]
    return tuple(_joined(_spans_on(hours.windows, days, zone)))


def _spans_on(
    windows: Iterable[WeeklyWindow], days: Iterable[date], zone: ZoneInfo
) -> Iterator[tuple[float, float]]:
    days = tuple(days)
    for window in windows:
        over = DAY_MIN if window.ends_min <= window.begins_min else 0
        for day in days:
            if day.weekday() in window.days:
                begins_at = _first_at(day, window.begins_min, zone)
                ends_at = _last_at(day, window.ends_min + over, zone)
                if ends_at > begins_at:
                    yield begins_at, ends_at


def _joined(spans: Iterable[tuple[float, float]]) -> Iterator[QuietSpan]:
    begun: tuple[float, float] | None = None
    for begins_at, ends_at in sorted(spans):
        if begun is None:
            begun = begins_at, ends_at
        elif begins_at <= begun[1]:
            begun = begun[0], max(begun[1], ends_at)
        else:
            yield QuietSpan(*begun)
            begun = begins_at, ends_at
    if begun is not None:
        yield QuietSpan(*begun)


def _local(day: date, minutes: int) -> datetime:
    midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - the zone is added by the caller
    return midnight + timedelta(minutes=minutes)


def _first_at(day: date, minutes: int, zone: ZoneInfo) -> float:
    """Return when the clock first reads that time, or skips it."""
    return _read_at(_local(day, minutes), zone, fold=0)


def _last_at(day: date, minutes: int, zone: ZoneInfo) -> float:
    """Return when the clock last reads that time, or skips it."""
    return _read_at(_local(day, minutes), zone, fold=1)


def _read_at(local: datetime, zone: ZoneInfo, *, fold: int) -> float:
    at = local.replace(tzinfo=zone, fold=fold)
    back = datetime.fromtimestamp(at.timestamp(), zone)
    if back.replace(tzinfo=None) == local:
        return at.timestamp()
    return _skipped_at(local, zone)


def _skipped_at(local: datetime, zone: ZoneInfo) -> float:
    """Return when the clock skips a time, computed from its offsets before and after."""
    ends = sorted(local.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    low, high = int(ends[0]), int(ends[1])
    while high - low > 1:
        middle = (low + high) // 2
        skipped = datetime.fromtimestamp(middle, zone).replace(tzinfo=None) > local
        low, high = (low, middle) if skipped else (middle, high)
    return float(high)
