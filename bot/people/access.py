"""What each person may do, and how much. Makes decisions and stores nothing.

Days follow the configured time zone, or the machine's if there is none. Machines that share a queue
need the configured one, so that they agree on when a day begins.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple, TypeVar

from bot.people.people import NO_LIMIT, Person
from queueing.core.jobs import Job

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonLimits:
    """Limits of one person. None means no limit.

    A person may have `open_per_person` open jobs. Of these, `queued_per_person` are in the queue at
    once, and the rest wait in the person's overflow. `per_hour` limits the jobs accepted in an
    hour, not counting failed ones. `lane` is the lane of the person's jobs. Embeddings count only
    against `embeddings_open`; `queued_per_person` applies to them separately. `gpu_seconds_per_day`
    covers all of a person's jobs.
    """

    open_per_person: int = 10
    queued_per_person: int = 5
    embeddings_open: int = 500
    per_hour: int | None = None
    gpu_seconds_per_day: float | None = None
    lane: str = "normal"


_NONE_RULED: Mapping[str, int | float | str | None] = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Role:
    """A group of people with separate limits.

    `members` are users ("telegram:42"), and rights ("discord-role:7") that make their holders
    members.
    """

    name: str
    limits: PersonLimits
    members: frozenset[str] = frozenset()


class Access:
    """Decides by user id ("telegram:42") and by the rights that come with a call.

    A right only counts for the call that it comes with, so it is checked on every call. In another
    server or in a direct message, the same person does not have it. Hiding commands in a client's
    menu is only a convenience.
    """

    def __init__(
        self,
        admins: Collection[str],
        limits: PersonLimits,
        roles: Sequence[Role] = (),
        allowed: Mapping[str, Collection[str]] | None = None,
        allowed_roles: Mapping[str, Collection[str]] | None = None,
        *,
        named: Collection[str] = (),
        zone: tzinfo | None = None,
    ) -> None:
        """Create from the operator's settings.

        `admins` are users and rights. `allowed` lists the chats of each platform from which calls
        are accepted. `allowed_roles` lists rights of which a caller needs one. `named` are further
        people and rights that settings depend on. Days and times of day are in `zone`, or in the
        machine's zone if None.
        """
        self.zone = zone
        self._admins = frozenset(admins)
        self._others = frozenset(named)
        self._limits = limits
        self._roles = tuple(roles)
        self._allowed = {name: frozenset(chats) for name, chats in (allowed or {}).items() if chats}
        needed = (allowed_roles or {}).items()
        self._needed = {name: frozenset(rights) for name, rights in needed if rights}

    def adopt(self, other: "Access") -> None:
        """Replace all settings by those of another instance."""
        for name in ("_admins", "_limits", "_roles", "_allowed", "_needed", "_others", "zone"):
            setattr(self, name, getattr(other, name))

    def lets_in(self, platform: str, places: Collection[str]) -> bool:
        """Return whether calls from a chat are accepted.

        `places` are the ids of the chat and of the server or group around it. A platform without a
        list accepts calls from all chats.
        """
        allowed = self._allowed.get(platform)
        return allowed is None or not allowed.isdisjoint(places)

    def may_use(self, platform: str, user: str, rights: Collection[str]) -> bool:
        """Return whether a person may call.

        Admins may, and so may anyone whose own id is among the allowed chats.
        """
        needed = self._needed.get(platform)
        if needed is None or self.is_admin(user, rights):
            return True
        listed = user.partition(":")[2] in self._allowed.get(platform, ())
        return listed or not needed.isdisjoint(rights)

    def is_admin(self, user: str, rights: Collection[str] = ()) -> bool:
        """Return whether a person is an admin in a call with these rights."""
        return self.admin_by(user, rights) is not None

    def admin_by(self, user: str, rights: Collection[str]) -> str | None:
        """Return the id or right that makes a person an admin in a call; None if nothing does."""
        if user in self._admins:
            return user
        return min(self._admins.intersection(rights), default=None)

    def admin_ids(self, platform: str) -> tuple[str, ...]:
        """Return the ids of a platform's admins, without the prefix of the platform."""
        mine = (user.partition(":") for user in self._admins if "@" not in user)
        return tuple(user for prefix, _, user in mine if prefix == platform)

    def places_of(self, right: str) -> frozenset[str]:
        """Return the places where a right ("telegram:group-admins") applies."""
        split = (name.partition("@") for name in self._named())
        return frozenset(place for name, _, place in split if name == right and place)

    def counting(self, rights: Collection[str]) -> frozenset[str]:
        """Return those of a person's rights on which a setting depends."""
        return self._named().intersection(rights)

    def _named(self) -> frozenset[str]:
        members = (role.members for role in self._roles)
        return self._admins.union(self._others, *self._needed.values(), *members)

    def may_touch(self, user: str, job: Job, rights: Collection[str] = ()) -> bool:
        """Return whether a person may cancel, repeat or see a job."""
        return user == job.owner or self.is_admin(user, rights)

    def limits_of(
        self,
        person: Person,
        rights: Collection[str],
        ruled: Mapping[str, int | float | str | None] = _NONE_RULED,
    ) -> PersonLimits:
        """Return a person's limits: those of the first matching role, with changes by admins.

        `ruled` are the limits that the rule for a call sets, which replace those of the role.
        """
        limits = self._limits
        for role in self._roles:
            if person.user in role.members or not role.members.isdisjoint(rights):
                limits = role.limits
                break
        limits = replace(limits, **ruled) if ruled else limits  # type: ignore[arg-type]
        return PersonLimits(
            open_per_person=limits.open_per_person if person.max_open is None else person.max_open,
            queued_per_person=limits.queued_per_person,
            embeddings_open=limits.embeddings_open,
            per_hour=_own(person.per_hour, limits.per_hour),
            gpu_seconds_per_day=_own(person.gpu_per_day, limits.gpu_seconds_per_day),
            lane=person.lane or limits.lane,
        )


def _own(changed: int | None, usual: Number | None) -> int | Number | None:
    if changed == NO_LIMIT:
        return None
    return usual if changed is None else changed


class Day(NamedTuple):
    """Start and end of a day, in UNIX seconds."""

    began_at: float
    ends_at: float


def day_of(now: float, zone: tzinfo | None) -> Day:
    """Return the day of a time, from midnight to midnight."""
    midnight = _local(now, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return Day(_moment(midnight, zone), _moment(midnight + timedelta(days=1), zone))


def next_at(now: float, zone: tzinfo | None, *, hour: int, minute: int) -> float:
    """Return the next time at this time of day."""
    here = _local(now, zone)
    at = here.replace(hour=hour, minute=minute, second=0, microsecond=0)
    if at <= here:
        at += timedelta(days=1)
    return _moment(at, zone)


def _local(moment: float, zone: tzinfo | None) -> datetime:
    return datetime.fromtimestamp(moment, UTC).astimezone(zone).replace(tzinfo=None)


def _moment(local: datetime, zone: tzinfo | None) -> float:
    # If `zone` is None: the machine's zone, with the offset on that day.
    return local.replace(tzinfo=zone).timestamp()
