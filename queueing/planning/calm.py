"""Calm: when a later job may put an idle model out of memory, so that no one waits for it; pure.

A load for it begins when the model that must leave has been idle for as long as its own load takes, and
will probably not be asked for before all is over. It does not wait for that for ever.
"""

from typing import NamedTuple

PATIENCE_S = 3600.0  # of a later job; then any time in which nothing waits will do
LIKELY = 0.5  # requests expected while it is in the way: from here on it would be missed


class Leaver(NamedTuple):
    """An idle model that would have to leave: since when, how often it is asked for, its load."""

    idle_s: float
    rate_per_s: float
    load_s: float


def may_leave(leaver: Leaver, in_the_way_s: float, waited_s: float) -> bool:
    """Return whether a model may leave for a later job.

    Loading and serving the job, which has waited for `waited_s`, takes `in_the_way_s`.
    """
    if waited_s >= PATIENCE_S:
        return True
    missed = leaver.rate_per_s * (in_the_way_s + leaver.load_s)
    return leaver.idle_s >= leaver.load_s and missed < LIKELY
