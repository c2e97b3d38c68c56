"""What each person may do, and how much: admins, owners, roles, limits. Decides, never stores."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from bot.people import HOUR_S, NO_LIMIT, Person
from queueing.jobs import Job


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How much one person may ask for; None for no limit.

    `open_per_person` open jobs, of which `in_line_per_person` stand in line at once and the rest
    in the person's back row; `per_hour` accepted jobs an hour, failed ones not counted; `lane` is
    where their jobs stand.
    """

    open_per_person: int = 10
    in_line_per_person: int = 5
    per_hour: int | None = None
    lane: str = "normal"


@dataclass(frozen=True, kw_only=True, slots=True)
class Role:
    """A group of people with limits of their own.

    `members` are users ("telegram:42"), `discord_roles` ids of roles on Discord servers.
    """

    name: str
    limits: Limits
    members: frozenset[str] = frozenset()
    discord_roles: frozenset[str] = frozenset()


class Access:
    """Answers by user id ("telegram:42"); what a client's menu hides is only politeness."""

    def __init__(
        self,
        admins: Collection[str],
        limits: Limits,
        roles: Sequence[Role] = (),
        allowed: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        """Take what the operator settled; `allowed` are the chats of a platform that may call."""
        self._admins = frozenset(admins)
        self._limits = limits
        self._roles = tuple(roles)
        self._allowed = {name: frozenset(chats) for name, chats in (allowed or {}).items() if chats}

    def lets_in(self, platform: str, places: Collection[str]) -> bool:
        """Return whether calls from a chat are taken; `places` are its id and what it is part of.

        A platform without a list is open to all its chats.
        """
        allowed = self._allowed.get(platform)
        return allowed is None or not allowed.isdisjoint(places)

    def is_admin(self, user: str) -> bool:
        """Return whether that person is an admin."""
        return user in self._admins

    def admin_ids(self, platform: str) -> tuple[str, ...]:
        """Return the admins' ids on one platform, without its prefix."""
        mine = (user.partition(":") for user in self._admins)
        return tuple(user for prefix, _, user in mine if prefix == platform)

    def may_touch(self, user: str, job: Job) -> bool:
        """Return whether that person may cancel, repeat or see a job."""
        return user == job.owner or self.is_admin(user)

    def limits_of(self, person: Person, platform_roles: Collection[str]) -> Limits:
        """Return a person's limits: of the first role they have, as admins changed them."""
        limits = self._limits
        for role in self._roles:
            if person.user in role.members or role.discord_roles & frozenset(platform_roles):
                limits = role.limits
                break
        return Limits(
            open_per_person=limits.open_per_person if person.max_open is None else person.max_open,
            in_line_per_person=limits.in_line_per_person,
            per_hour=_own(person.per_hour, limits.per_hour),
            lane=person.lane or limits.lane,
        )


def _own(changed: int | None, usual: int | None) -> int | None:
    if changed == NO_LIMIT:
        return None
    return usual if changed is None else changed


def free_again_at(spent: Sequence[float], per_hour: int | None, now: float) -> float | None:
    """Return when the next job of this hour's quota frees up; None while some is left.

    `spent` are the moments of the last hour's jobs, oldest first.
    """
    if per_hour is None or len(spent) < per_hour:
        return None
    if per_hour == 0:
        return now + HOUR_S
    return spent[len(spent) - per_hour] + HOUR_S
