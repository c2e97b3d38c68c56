"""The estimates shown to people for when jobs end: the first one, and the newest.

A forecast varies by seconds with every run. People therefore see the same range until it has
passed, a new one does not overlap it, or a new one is at most half as wide. Kept in memory only;
the bot stores what must survive a restart.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from queueing.core.status import Estimate, Promised

NARROWER = 0.5  # a new range is shown if it is at most this share of the old one's width
GONE_FOR_S = 3.0  # while a start is being stored, its queue briefly has no forecast
SOON_S = 5.0  # "any moment" is shown this long before the earliest time,
SURELY_SOON_S = 30.0  # and when the latest time is this near
_MOST = 10_000  # ranges kept before unused ones are dropped
_KEPT_S = 600.0  # since it was last requested


@dataclass(kw_only=True, slots=True)
class _Shown:
    value: Estimate | None
    asked_at: float
    gone_since: float | None = None  # no estimate was possible since then


class ShownEstimates:
    """Keeps the range last shown for each job, model or other key."""

    def __init__(self) -> None:
        self._shown: dict[Hashable, _Shown] = {}
        self._most = _MOST

    def of(self, key: Hashable, fresh: Estimate | None, now: float) -> Estimate | None:
        """Return the estimate to show, given a fresh one; None if there is nothing to show."""
        shown = self._shown.get(key)
        if shown is None:
            self._make_room(now)
            shown = self._shown[key] = _Shown(value=fresh, asked_at=now)
        shown.asked_at = now
        if fresh is not None:
            shown.gone_since = None
        elif shown.gone_since is None:
            shown.gone_since = now
        elif now - shown.gone_since >= GONE_FOR_S:
            shown.value = None
        shown.value = after(shown.value, fresh, now)
        return _marked_soon(shown.value, now)

    def look_up(self, key: Hashable, fresh: Estimate | None, now: float) -> Estimate | None:
        """Return the estimate as it was last shown, else the fresh one. Changes nothing."""
        shown = self._shown.get(key)
        return _marked_soon(after(None if shown is None else shown.value, fresh, now), now)

    def __len__(self) -> int:
        """Return the number of estimates kept."""
        return len(self._shown)

    def _make_room(self, now: float) -> None:
        if len(self._shown) >= self._most:
            self._shown = {k: t for k, t in self._shown.items() if t.asked_at > now - _KEPT_S}
            self._most = max(_MOST, 2 * len(self._shown))


def after(shown: Estimate | None, fresh: Estimate | None, now: float) -> Estimate | None:
    """Return what to show after `shown`. If that has passed, the result is `late`."""
    if shown is None:
        return fresh
    passed = shown.latest <= now
    if fresh is None:
        return None if passed else shown
    apart = fresh.earliest > shown.latest or fresh.latest < shown.earliest
    if passed or apart or _width_s(fresh, now) <= NARROWER * _width_s(shown, now):
        return replace(fresh, late=shown.late or passed)
    return shown


def before(starts: Estimate, ends: Estimate) -> Estimate:
    """Return the start to show: never later than the end shown."""
    return replace(
        starts,
        at=min(starts.at, ends.latest),
        earliest=min(starts.earliest, ends.earliest),
        latest=min(starts.latest, ends.latest),
    )


def _marked_soon(estimate: Estimate | None, now: float) -> Estimate | None:
    if estimate is None:
        return None
    near = estimate.earliest <= now + SOON_S or estimate.latest <= now + SURELY_SOON_S
    return replace(estimate, soon=True) if near else estimate


def _width_s(estimate: Estimate, now: float) -> float:
    """Return the width of the part of a range that is still ahead."""
    return estimate.latest - max(now, estimate.earliest)


class Promises:
    """Keeps the first range shown for each job. Keeps nothing before `follow` is called."""

    def __init__(self) -> None:
        self._given: dict[int, Promised] = {}
        self._followed = False

    def follow(self) -> None:
        """Start keeping promises. From then on, the caller must drop those of ended jobs."""
        self._followed = True

    @property
    def given(self) -> Mapping[int, Promised]:
        """The kept promises, by job id."""
        return MappingProxyType(self._given)

    def tell(self, job_id: int, ends: Estimate, now: float) -> None:
        """Record a range shown for a job, if it is the first."""
        if self._followed and job_id not in self._given:
            self._given[job_id] = Promised(given_at=now, earliest=ends.earliest, latest=ends.latest)

    def restore(self, given: Mapping[int, Promised]) -> None:
        """Restore promises of an earlier run, which take precedence."""
        self._given.update(given)

    def drop(self, job_ids: Iterable[int]) -> None:
        """Forget the promises of these jobs. Idempotent."""
        for job_id in job_ids:
            self._given.pop(job_id, None)
