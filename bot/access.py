"""Who may do what, and how much: admins, owners, limits. Decides, never stores."""

from collections.abc import Collection
from dataclasses import dataclass

from queueing.jobs import Job


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How many open jobs a person may have, and how many of them stand in line at once."""

    open_per_person: int = 10
    in_line_per_person: int = 5


class Access:
    """Answers by user id ("telegram:42"); what a client's menu hides is only politeness."""

    def __init__(self, admins: Collection[str], limits: Limits) -> None:
        self._admins = frozenset(admins)
        self.limits = limits

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
