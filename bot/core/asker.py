"""The person and the room of a request, as the operator's rules see them."""

from collections.abc import Iterable
from dataclasses import dataclass


def rooms_of(platform: str, places: Iterable[str]) -> tuple[str, ...]:
    """Return the names by which a configuration may mean a chat, the nearest first.

    They are "<platform>:<place>" for each place, then the platform's own name. A place is an id of
    the platform; see `bot.core.live_settings.places_of`.
    """
    return (*(f"{platform}:{place}" for place in places), platform)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asker:
    """A person in a room.

    `rooms` are the names of the room and of what it is part of; see `rooms_of`. `rights` are the
    person's roles, by the names a configuration gives them. `group`: other people read the room.
    """

    user: str
    rooms: tuple[str, ...]
    rights: frozenset[str] = frozenset()
    group: bool = False
