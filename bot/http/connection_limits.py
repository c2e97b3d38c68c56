"""The people connected to the page, and whose connection ends to make room for another.

Pure: decides by counts and moments. Unknown visitors never keep a person out: a new connection
replaces that of the unknown visitor idle longest, so a person with a valid cookie is let in even
from those visitors' address.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionLimits:
    """Limits: all connections, unknown visitors' from one address, and one person's."""

    overall: int
    strangers: int
    person: int

    @classmethod
    def of(cls, overall: int) -> "ConnectionLimits":
        """Divide a number of connections into these limits."""
        return cls(
            overall=overall,
            strangers=max(1, min(64, overall // 4)),
            person=max(1, min(100, overall // 2)),
        )


@dataclass(kw_only=True, slots=True, eq=False)
class OpenConnection:
    """A connection: address, person if a cookie names one, requests in progress, last activity.

    A proxy's connections carry requests of many people, so its address identifies no one. `unsent`
    bytes waited to be sent at the last check, and for `unread` checks in a row none of them left.
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
    """Return the connection to end so that one more from an address fits; None if there is room.

    If none can end, there is no room at all: see `is_full`.
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
    """Return the connection to end because a person has more than their share."""
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
