"""A host's timeline: its segments, and the seconds of each activity per minute. Pure.

A stretch of less than a second, such as the pause between two jobs, is drawn as part of the segment
before it. The seconds are counted exactly.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bot.monitoring.buckets import MINUTE_S, SECONDS, HostBucket, beginning
from bot.monitoring.records import Activity, Segment
from queueing.core.snapshot import Residency
from queueing.core.status import HostActivity, Rest

MERGED_S = 1.0

_Doing = tuple[Activity, tuple[str, ...]]
_RESTS: Mapping[Rest, Activity] = {
    "paused": "paused",
    "quiet": "quiet",
    "yielding": "yielding",
    "asleep": "asleep",
    "waking": "asleep",
}


def doing(state: HostActivity) -> _Doing | None:
    """Return a host's activity and its models, or None if nothing is known yet."""
    if state.running:
        return "run", tuple(sorted(state.running))
    loading = {model for model, _, residency in state.copies if residency is Residency.LOADING}
    if loading:
        return "load", tuple(sorted(loading))
    if state.rest is not None:
        return _RESTS[state.rest], ()
    if state.up is None:
        return None
    return ("idle", ()) if state.up else ("down", ())


class HostTimeline:
    """Follows one host. Call `see` for each change, and `take` for the results."""

    def __init__(self) -> None:
        self._open: Segment | None = None
        self._before: Segment | None = None  # ends where the open segment begins
        self._is_taken = False  # whether `take` has already returned a part of the open segment
        self._seen_at = 0.0
        self._changed: dict[float, Segment] = {}  # by start
        self._seconds: defaultdict[int, defaultdict[Activity, float]] = defaultdict(
            lambda: defaultdict(float)
        )

    def see(self, does: _Doing | None, now: float) -> None:
        """Record the host's activity from `now` on."""
        if self._open is not None and does == (self._open.kind, self._open.models):
            return
        self._pass(now)
        if self._open is not None:
            self._close(self._open, does)
        if self._open is None and does is not None:
            self._open = Segment(begins=now, ends=now, kind=does[0], models=does[1])
            self._is_taken = False
        if does is None:
            self._before = None

    def _close(self, was: Segment, does: _Doing | None) -> None:
        before, self._open = self._before, None
        if before is None or self._is_taken or was.ends - was.begins >= MERGED_S:
            self._before = was
            self._keep(was)
        elif does == (before.kind, before.models):
            self._open, self._before = replace(before, ends=was.ends), None
            self._is_taken = True  # because a part of it may have been taken
        else:
            self._before = replace(before, ends=was.ends)
            self._keep(self._before)

    def _keep(self, segment: Segment) -> None:
        if segment.ends > segment.begins:
            self._changed[segment.begins] = segment

    def _pass(self, now: float) -> None:
        if self._open is not None:
            self._count(self._open.kind, self._seen_at, now)
            self._open = replace(self._open, ends=max(now, self._open.ends))
        self._seen_at = now

    def _count(self, kind: Activity, begins: float, ends: float) -> None:
        while begins < ends:
            minute = beginning(begins, MINUTE_S)
            until = min(ends, float(minute + MINUTE_S))
            self._seconds[minute][kind] += until - begins
            begins = until

    def take(self, now: float) -> tuple[Sequence[Segment], Mapping[int, HostBucket]]:
        """Return the new and extended segments, and the seconds of each minute. Each only once."""
        self._pass(now)
        if self._open is not None and self._open.ends - self._open.begins >= MERGED_S:
            self._keep(self._open)
            self._is_taken = True
        segments = [self._changed[begins] for begins in sorted(self._changed)]
        buckets = {minute: _bucket(spent) for minute, spent in self._seconds.items()}
        self._changed.clear()
        self._seconds.clear()
        return segments, buckets


def _bucket(spent: Mapping[Activity, float]) -> HostBucket:
    seconds: Mapping[str, Any] = {SECONDS[kind]: each for kind, each in spent.items()}
    return HostBucket(**seconds)


def merged(segments: Sequence[Segment], cell_s: float) -> tuple[Segment, ...]:
    """Merge segments into cells of `cell_s`, each showing one of its activities.

    An activity that a cell does not show carries over to later cells, so that over time each
    activity gets its share. If each cell showed only its longest activity, a host with a load and a
    short job every minute would seem to do nothing but load. A cell that is recorded for less than
    a quarter stays empty.
    """
    owed: defaultdict[_Doing, float] = defaultdict(float)
    found: list[Segment] = []
    for cell, spent in _by_cell(segments, cell_s):
        known_s = sum(spent.values())
        if known_s < cell_s / 4:
            continue
        for each, seconds in spent.items():
            owed[each] += seconds
        does = max(spent, key=lambda each: owed[each])
        owed[does] -= known_s
        begins, ends = cell * cell_s, (cell + 1) * cell_s
        last = found[-1] if found else None
        if last is not None and last.ends == begins and (last.kind, last.models) == does:
            found[-1] = replace(last, ends=ends)
        else:
            found.append(Segment(begins=begins, ends=ends, kind=does[0], models=does[1]))
    return tuple(found)


def _by_cell(
    segments: Sequence[Segment], cell_s: float
) -> Iterator[tuple[int, Mapping[_Doing, float]]]:
    """Yield the seconds of each activity, cell by cell."""
    spent: defaultdict[int, defaultdict[_Doing, float]] = defaultdict(lambda: defaultdict(float))
    for segment in segments:
        begins = segment.begins
        while begins < segment.ends:
            cell = int(begins // cell_s)
            until = min(segment.ends, (cell + 1) * cell_s)
            spent[cell][segment.kind, segment.models] += until - begins
            begins = until
    for cell in sorted(spent):
        yield cell, spent[cell]
