"""People: what each person used today, has open and may do, and the acts of admins; records only.

{"at": 1795400000.0, "since": 1795384800.0,
 "people": [{"user": "telegram:42", "name": "telegram:42", "gpu_s": 312.5, "jobs": 9,
   "waiting": 2, "running": 1,
   "limits": {"open_per_person": 10, "in_line_per_person": 5, "embeddings_open": 500,
              "per_hour": null, "lane": "normal"},
   "banned": false, "banned_until": null, "ban_reason": null, "admin": false}],
 "more": 0,
 "acts": [{"at": 1795399000.0, "actor": "telegram:1", "action": "ban",
           "subject": "telegram:42", "detail": ""}]}

Names are those of `bot.people`; nothing here says what a person asked for.
"""

from dataclasses import dataclass

from bot.people.access import PersonLimits
from bot.people.audit_log import Act


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonUse:
    """A person: GPU seconds and ended jobs of today, open jobs, limits.

    `name` is how they are shown, `user` where no name is known. `admin` and the limits are what
    holds without the rights that a call brings.
    """

    user: str
    name: str
    gpu_s: float
    jobs: int
    waiting: int
    running: int
    limits: PersonLimits
    banned: bool
    banned_until: float | None
    ban_reason: str | None
    admin: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorPeople:
    """Those who used the bot today, wait, are banned or have limits of their own.

    The most GPU seconds come first; `since` is when today began, `more` counts those left out. The
    acts are the newest ones, newest first.
    """

    at: float
    since: float
    people: tuple[PersonUse, ...]
    more: int
    acts: tuple[Act, ...]
