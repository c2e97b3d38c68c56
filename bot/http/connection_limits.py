"""Decides which connection to close when a server is full. Pure.

Unknown visitors never keep people out. A new connection replaces the one of the unknown visitor who
was idle longest, so a person with a valid cookie always gets in, even from the same address.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionLimits:
    """Limits on connections: in total, of unknown visitors per address, and per person."""

    overall: int
    strangers: int
    person: int

    @classmethod
    def of(cls, overall: int) -> "ConnectionLimits":
        """Derive the limits from the total number of connections."""
        return cls(
            overall=overall,
            strangers=max(1, min(64, overall // 4)),
            person=max(1, min(100, overall // 2)),
        )


@dataclass(kw_only=True, slots=True, eq=False)
class OpenConnection:
    """A connection: its address, its person if a cookie identifies one, and its activity.

    A proxy's connections carry requests of many people, so its address identifies no one. `busy`
    counts requests in progress. `unsent` is the size of the send buffer at the last check, and
    `unread` counts the consecutive checks at which that size was the same.
    """

    address: str
    proxy: bool
    at: float
    person: str | None = None
    busy: int = 0
    unsent: int = 0
    unread: int = 0


def in_the_way(
    visits: Collection[OpenConnection], address: str, room: ConnectionLimits
) -> OpenConnection | None:
    """Return the connection to close for a new one from an address, or None if there is room.

    Also returns None if no connection may be closed. `is_full` distinguishes the two cases.
    """
    strangers = [visit for visit in visits if visit.person is None]
    here = [visit for visit in strangers if visit.address == address and not visit.proxy]
    if len(here) >= room.strangers:
        return _longest_idle(here)
    if len(visits) < room.overall:
        return None
    idle = strangers or [visit for visit in visits if not visit.busy]
    (holder, _), *_ = Counter(map(_holder, idle)).most_common(1) or [((None, ""), 0)]
    return _longest_idle([visit for visit in idle if _holder(visit) == holder])


def beyond_a_person(
    visits: Collection[OpenConnection], person: str, room: ConnectionLimits
) -> OpenConnection | None:
    """Return the connection to close because a person has too many, or None."""
    own = [visit for visit in visits if visit.person == person]
    if len(own) <= room.person:
        return None
    return _longest_idle([visit for visit in own if not visit.busy])


def is_full(visits: Collection[OpenConnection], room: ConnectionLimits) -> bool:
    """Return whether no further connection fits."""
    return len(visits) >= room.overall


def _holder(visit: OpenConnection) -> tuple[str | None, str]:
    return (visit.person, "" if visit.person else visit.address)


def _longest_idle(visits: Sequence[OpenConnection]) -> OpenConnection | None:
    return min(visits, key=lambda visit: visit.at, default=None)
