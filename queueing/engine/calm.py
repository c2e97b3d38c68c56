"""Calm: when a later job may put an idle model out of memory, so that no one waits for it; pure.

A load for it begins when the model that must leave has been idle for as long as its own load takes, and
will probably not be asked for before all is over. It does not wait for that for ever: a line of later
jobs that has waited for an hour takes any pause, and then waits as long for the next one.
"""

from typing import NamedTuple

PATIENCE_S = 3600.0  # of a line of later jobs, since its first one came or it last took a pause
LIKELY = 0.5  # requests expected while it is in the way: from here on it would be missed


class Leaver(NamedTuple):
    """An idle model that would have to leave: since when, how often it is asked for, its load."""

    idle_s: float
    rate_per_s: float
    load_s: float


def may_leave(leaver: Leaver, in_the_way_s: float) -> bool:
    """Return whether no one will probably miss a model that leaves for a later job.

    Loading and serving the job takes `in_the_way_s`.
    """
    missed = leaver.rate_per_s * (in_the_way_s + leaver.load_s)
    return leaver.idle_s >= leaver.load_s and missed < LIKELY


def takes_any_pause(first_queued_at: float, took_at: float, now: float) -> bool:
    """Return whether a line of later jobs has waited for long enough, `took_at` its last such pause."""
    return now - max(first_queued_at, took_at) >= PATIENCE_S
