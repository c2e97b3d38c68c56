"""The moments of a standing: made from a forecast, and only those that can be stated; pure."""

from typing import TypedDict

from queueing.planning.forecast import Expected
from queueing.service.calm_eta import Expectation


class StandingTimes(TypedDict, total=False):
    """The times of a standing."""

    starts_at: float
    starts_from: float
    starts_until: float
    done_at: float
    done_from: float
    done_until: float
    done_spread_s: float


def expectation(at: float, spread_s: float) -> Expectation:
    """Return a moment that may be off by so much."""
    return Expectation(at=at, earliest=at - spread_s, latest=at + spread_s)


def start(expected: Expected) -> Expectation:
    """Return when a job starts."""
    return expectation(expected.start_at, expected.start_spread_s)


def end(expected: Expected) -> Expectation:
    """Return when a job ends."""
    return expectation(expected.done_at, expected.spread_s)


def moments(begin: Expectation | None, done: Expectation | None, now: float) -> StandingTimes:
    """Return the times of a standing that can be stated."""
    times: StandingTimes = {}
    if begin is not None:
        times["starts_at"], times["starts_until"] = begin.at, begin.latest
        times["starts_from"] = max(now, begin.earliest)
    if done is not None:
        times["done_at"], times["done_until"] = done.at, done.latest
        times["done_from"], times["done_spread_s"] = max(now, done.earliest), done.latest - done.at
    return times
