"""Days: when today began and ends, in the time zone of this machine."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple


class Day(NamedTuple):
    """A day's first moment and that of the next one, in UNIX seconds."""

    began_at: float
    ends_at: float


def day_of(now: float) -> Day:
    """Return the day of a moment, from midnight to midnight where this machine stands."""
    today = datetime.fromtimestamp(now, UTC).astimezone().date()
    return Day(_midnight(today.toordinal()), _midnight((today + timedelta(days=1)).toordinal()))


def _midnight(ordinal: int) -> float:
    # Without a zone: the machine's, with the offset of that very day.
    return datetime.fromordinal(ordinal).astimezone().timestamp()
