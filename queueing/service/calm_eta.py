"""Calm ETA: the moments people are shown, which change only when they are clearly off.

A forecast wanders by some seconds with every look. Every question about a job gets the same moment
until it is off by more than a fifth of the remaining time, or ten seconds; a moment that turns back
must have been off for a while. A moment that has passed is no longer shown. Pure decisions, no I/O.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from queueing.core.standings import PASSES_S

_STEADY_S = 10.0
_STEADY_SHARE = 0.2
_SEEN_FOR_S = 3.0  # how long a moment must be off before it is corrected
_TURNED_FOR_S = 20.0  # the same before it returns to an earlier value
_MORE_FOR_S = 4.0  # how long more must go first before that is shown
_MOST = 10_000  # moments, before those without a reader are dropped
_KEPT_S = 600.0  # since it was last asked for


@dataclass(frozen=True, kw_only=True, slots=True)
class Expectation:
    """A moment (UNIX seconds), and the moments between which it will probably be."""

    at: float
    earliest: float
    latest: float


@dataclass(kw_only=True, slots=True)
class _Told:
    value: Expectation | None
    asked_at: float
    later: bool | None = None  # which way it was last corrected
    off_since: float | None = None  # off in one direction since then
    off_later: bool = False


class Calm:
    """Keeps what was shown for each job, model or other key."""

    def __init__(self) -> None:
        self._told: dict[Hashable, _Told] = {}
        self._most = _MOST

    def of(self, key: Hashable, expected: Expectation | None, now: float) -> Expectation | None:
        """Return what to show for this expectation, or None if nothing can be said."""
        if expected is not None and expected.at <= now:
            expected = None  # it is overdue: when it will happen is open
        told = self._told.get(key)
        if told is None:
            self._make_room(now)
            told = self._told[key] = _Told(value=expected, asked_at=now)
        told.asked_at = now
        old = told.value
        if old is None or old.at + PASSES_S <= now:
            _tell(told, expected)
        elif expected is None:
            if old.at > now:
                _correct(told, None, now, later=True)
        elif _is_off(old.at, expected.at, now):
            _correct(told, expected, now, later=expected.at > old.at)
        else:
            told.off_since = None
        return told.value

    def renewed(
        self, key: Hashable, expected: Expectation | None, now: float
    ) -> Expectation | None:
        """Return what to show for this expectation, whatever was shown before."""
        told = self._told[key]
        _tell(told, expected if expected is not None and expected.at > now else None)
        return told.value

    def shown(self, key: Hashable, expected: Expectation | None, now: float) -> Expectation | None:
        """Return what those concerned were last shown, else this expectation; changes nothing."""
        told = self._told.get(key)
        if told is not None and told.value is not None and told.value.at > now:
            return told.value
        return expected if expected is None or expected.at > now else None

    def __len__(self) -> int:
        """Return the number of moments kept."""
        return len(self._told)

    def _make_room(self, now: float) -> None:
        if len(self._told) >= self._most:
            self._told = {k: t for k, t in self._told.items() if t.asked_at > now - _KEPT_S}
            self._most = max(_MOST, 2 * len(self._told))


class Counts:
    """Keeps the shown number of jobs ahead for each wait: a forecast sways between two numbers.

    A smaller number is shown at once, a larger one only after it has lasted a while.
    """

    def __init__(self) -> None:
        self._told: dict[
            Hashable, tuple[int, float, float]
        ] = {}  # number, since when, last asked at

    def of(self, key: Hashable, count: int, now: float) -> int:
        """Return the number to show for the number counted now."""
        told, so_at, asked_at = self._told.get(key, (count, now, now))
        if count <= told or now - so_at >= _MORE_FOR_S or now - asked_at >= _MORE_FOR_S:
            told, so_at = count, now
        self._told[key] = told, so_at, now
        return told


def _is_off(told: float, expected: float, now: float) -> bool:
    return abs(expected - told) > max(_STEADY_S, _STEADY_SHARE * (told - now))


def _correct(told: _Told, expected: Expectation | None, now: float, *, later: bool) -> None:
    """Correct what is shown once it has been off long enough, longer if it turns back."""
    if told.off_since is None or told.off_later != later:
        told.off_since, told.off_later = now, later
    turns_back = told.later is not None and told.later != later
    if now - told.off_since >= (_TURNED_FOR_S if turns_back else _SEEN_FOR_S):
        _tell(told, expected)


def _tell(told: _Told, expected: Expectation | None) -> None:
    if told.value is not None and expected is not None:
        told.later = expected.at > told.value.at
    told.value, told.off_since = expected, None
