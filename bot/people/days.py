"""Days and times of day, in the configured time zone; without one, in the machine's.

Several machines share one queue, so that a day must not depend on which of them is asked.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple


class Day(NamedTuple):
    """A day's first moment and that of the next one, in UNIX seconds."""

    began_at: float
    ends_at: float


def day_of(now: float, zone: tzinfo | None) -> Day:
    """Return the day of a moment, from midnight to midnight."""
    midnight = _local(now, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return Day(_moment(midnight, zone), _moment(midnight + timedelta(days=1), zone))


def next_at(now: float, zone: tzinfo | None, *, hour: int, minute: int) -> float:
    """Return when it is a time of day next."""
    here = _local(now, zone)
    at = here.replace(hour=hour, minute=minute, second=0, microsecond=0)
    if at <= here:
        at += timedelta(days=1)
    return _moment(at, zone)


def _local(moment: float, zone: tzinfo | None) -> datetime:
    return datetime.fromtimestamp(moment, UTC).astimezone(zone).replace(tzinfo=None)


def _moment(local: datetime, zone: tzinfo | None) -> float:
    # Without a zone: the machine's, with the offset of that very day.
    return local.replace(tzinfo=zone).timestamp()
