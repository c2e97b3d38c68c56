"""What people were told of when a job ends: first, and since.

A forecast wanders by some seconds with every look. Every question about a job gets the same range
until a new one does not overlap it, or is half as wide, or it has passed. Memory only; the bot
keeps what must outlive a restart.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from queueing.core.status import Estimate, Promised

NARROWER = 0.5  # a new range of at most this share of the width is worth a change
GONE_FOR_S = 3.0  # while a start is stored its queue has no forecast for a moment
SOON_S = 5.0  # before the earliest moment it may be "any moment",
SURELY_SOON_S = 30.0  # as well as before a latest one that is so near
_MOST = 10_000  # ranges, before those without a reader are dropped
_KEPT_S = 600.0  # since it was last asked for


@dataclass(kw_only=True, slots=True)
class _Told:
    value: Estimate | None
    asked_at: float
    gone_since: float | None = None  # nothing could be said since then


class ShownEstimates:
    """Keeps what was shown for each job, model or other key."""

    def __init__(self) -> None:
        self._told: dict[Hashable, _Told] = {}
        self._most = _MOST

    def of(self, key: Hashable, fresh: Estimate | None, now: float) -> Estimate | None:
        """Return what to show for this estimate, or None if nothing can be said."""
        told = self._told.get(key)
        if told is None:
            self._make_room(now)
            told = self._told[key] = _Told(value=fresh, asked_at=now)
        told.asked_at = now
        if fresh is not None:
            told.gone_since = None
        elif told.gone_since is None:
            told.gone_since = now
        elif now - told.gone_since >= GONE_FOR_S:
            told.value = None
        told.value = after(told.value, fresh, now)
        return _as_of(told.value, now)

    def look_up(self, key: Hashable, fresh: Estimate | None, now: float) -> Estimate | None:
        """Return what those concerned were last shown, else this estimate; changes nothing."""
        told = self._told.get(key)
        return _as_of(after(None if told is None else told.value, fresh, now), now)

    def __len__(self) -> int:
        """Return the number of estimates kept."""
        return len(self._told)

    def _make_room(self, now: float) -> None:
        if len(self._told) >= self._most:
            self._told = {k: t for k, t in self._told.items() if t.asked_at > now - _KEPT_S}
            self._most = max(_MOST, 2 * len(self._told))


def after(told: Estimate | None, fresh: Estimate | None, now: float) -> Estimate | None:
    """Return what to show after an estimate; one that has passed makes the next one `late`."""
    if told is None:
        return fresh
    passed = told.latest <= now
    if fresh is None:
        return None if passed else told
    apart = fresh.earliest > told.latest or fresh.latest < told.earliest
    if passed or apart or _width_s(fresh, now) <= NARROWER * _width_s(told, now):
        return replace(fresh, late=told.late or passed)
    return told


def before(starts: Estimate, ends: Estimate) -> Estimate:
    """Return a start that fits an end that was told: never later than it."""
    return replace(
        starts,
        at=min(starts.at, ends.latest),
        earliest=min(starts.earliest, ends.earliest),
        latest=min(starts.latest, ends.latest),
    )


def _as_of(estimate: Estimate | None, now: float) -> Estimate | None:
    if estimate is None:
        return None
    near = estimate.earliest <= now + SOON_S or estimate.latest <= now + SURELY_SOON_S
    return replace(estimate, soon=True) if near else estimate


def _width_s(estimate: Estimate, now: float) -> float:
    """Return how long what is left of a range is."""
    return estimate.latest - max(now, estimate.earliest)


class Promises:
    """Keeps the first range told of each job until it is dropped, once it is followed."""

    def __init__(self) -> None:
        self._given: dict[int, Promised] = {}
        self._followed = False

    def follow(self) -> None:
        """Keep promises from now on; the caller drops those of jobs that have ended."""
        self._followed = True

    @property
    def given(self) -> Mapping[int, Promised]:
        """The promises kept, by job."""
        return MappingProxyType(self._given)

    def tell(self, job_id: int, ends: Estimate, now: float) -> None:
        """Keep what a person is told of a job, if it is the first they are told."""
        if self._followed and job_id not in self._given:
            self._given[job_id] = Promised(given_at=now, earliest=ends.earliest, latest=ends.latest)

    def restore(self, given: Mapping[int, Promised]) -> None:
        """Take up what was told in an earlier run: it was told first."""
        self._given.update(given)

    def drop(self, job_ids: Iterable[int]) -> None:
        """Forget the promises of these jobs."""
        for job_id in job_ids:
            self._given.pop(job_id, None)
