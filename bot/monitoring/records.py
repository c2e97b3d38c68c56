"""Records of the last hours: timelines of hosts, and the jobs of each model in steps.

    {"span": "day", "at": 1795400000.0, "begins": 1795313700.0, "ends": 1795400100.0,
     "step_s": 900.0,
     "hosts": [{"name": "gpu-1",
       "segments": [{"begins": 1795313700.0, "ends": 1795313760.0, "kind": "load",
                     "models": ["flux"]}],
       "shares": [{"at": 1795313700.0, "run": 0.62, "load": 0.1, "idle": 0.2, "quiet": 0.0,
                   "yielding": 0.0, "paused": 0.0, "asleep": 0.0, "down": 0.0}],
       "busy": 0.41, "recorded_s": 3600.0, "loads": 12, "failed_loads": 0,
       "evictions": 9, "load_s": 122.0}],
     "models": [{"name": "flux", "done": 90, "failed": 2, "cancelled": 1, "wait_median_s": 4.1,
       "wait_p95_s": 31.0, "service_median_s": 12.0, "service_p95_s": 14.0, "service_s": 1103.0,
       "loads": 4, "failed_loads": 0, "evictions": 3, "given": 21, "kept": 18,
       "steps": [{"at": 1795313700.0, "done": 3, "failed": 0, "cancelled": 0,
                  "wait_median_s": 4.0, "wait_p95_s": 9.1, "service_s": 31.0, "loads": 1,
                  "failed_loads": 0, "evictions": 0}]}],
     "errors": [{"cause": "memory", "model": "flux", "count": 3, "newest": 812}],
     "promises": {"given": 93, "kept": 81,
                  "steps": [{"at": 1795313700.0, "given": 3, "kept": 3}]}}

Steps without any record are left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from bot.people.access import PersonLimits
from bot.people.audit_log import Act


class HourSpan(StrEnum):
    """How far back the history goes."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"


STEPS: Mapping[HourSpan, tuple[float, int]] = {
    HourSpan.HOUR: (60.0, 60),
    HourSpan.DAY: (900.0, 96),
    HourSpan.WEEK: (3600.0, 168),
}
"""The length and number of steps. The last step is the unfinished one."""

Activity = Literal["load", "run", "idle", "quiet", "yielding", "paused", "asleep", "down"]
"""The activity of a host.

- `run`: a job is running.
- `load`: a model is being loaded and no job is running.
- `idle`: none of the others.
- `quiet`: in its quiet hours.
- `yielding`: another program uses its GPU.
- `paused`: by an admin.
- `asleep`: until it is woken.
- `down`: it should work, but none of its servers can be used.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """A part of a host's timeline. `models` are the running models, or those being loaded."""

    begins: float
    ends: float
    kind: Activity
    models: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Shares:
    """A host's activities as fractions of a step. Unrecorded time makes the sum less than 1."""

    at: float
    run: float
    load: float
    idle: float
    quiet: float
    yielding: float
    paused: float
    asleep: float
    down: float

    @property
    def recorded(self) -> float:
        """The fraction of the step in which the bot was running."""
        worked = self.run + self.load + self.idle
        return worked + self.quiet + self.yielding + self.paused + self.asleep + self.down


@dataclass(frozen=True, kw_only=True, slots=True)
class HostHours:
    """A host over a span.

    `segments` are sorted and disjoint; in a gap the bot was not running. The segments of an hour
    are exact, those of a day are merged to minutes, and a week has none, only `shares`. `busy` is
    the fraction of the recorded time in which a job ran, and `recorded_s` is that time.
    """

    name: str
    segments: tuple[Segment, ...]
    shares: tuple[Shares, ...]
    busy: float
    recorded_s: float
    loads: int
    failed_loads: int
    evictions: int
    load_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelStep:
    """A model in one step. The wait times are None if no job started."""

    at: float
    done: int
    failed: int
    cancelled: int
    wait_median_s: float | None
    wait_p95_s: float | None
    service_s: float
    loads: int
    failed_loads: int
    evictions: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelHours:
    """A model over a span.

    A job counts when it ends. `service_s` is the total duration of the jobs' last attempts. `given`
    and `kept` count its first estimates as in `PromiseHours`.
    """

    name: str
    done: int
    failed: int
    cancelled: int
    wait_median_s: float | None
    wait_p95_s: float | None
    service_median_s: float | None
    service_p95_s: float | None
    service_s: float
    loads: int
    failed_loads: int
    evictions: int
    steps: tuple[ModelStep, ...]
    given: int = 0
    kept: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorHours:
    """The number of a model's jobs that failed for a cause, a `queueing.core.errors.ProblemKind`.

    `newest` is the id of the newest of them.
    """

    cause: str
    model: str
    count: int
    newest: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PromiseStep:
    """The promises of jobs that ended in a step."""

    at: float
    given: int
    kept: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PromiseHours:
    """How many jobs were promised an end time when accepted, and how many ended close to it.

    `queueing.core.status.Promised` defines how close that is.
    """

    given: int
    kept: int
    steps: tuple[PromiseStep, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class HoursRecord:
    """The bot over a span: hosts by name, models by total running time, errors by count."""

    span: HourSpan
    at: float
    begins: float
    ends: float
    step_s: float
    hosts: tuple[HostHours, ...]
    models: tuple[ModelHours, ...]
    errors: tuple[ErrorHours, ...]
    promises: PromiseHours


class PeopleSpan(StrEnum):
    """How far back people's use is added up. GPU time is kept for two days."""

    TODAY = "today"
    DAY = "day"
    TWO_DAYS = "two_days"


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonUse:
    """A person's usage: GPU seconds and ended jobs of a span, open jobs, and limits.

    `name` is their display name, or `user` if unknown. `admin` and the limits leave out rights that
    depend on a call. It is not `bannable` if it is an admin, a name that no chat gives to people,
    or the name shared by everyone who needs no token or key.
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
    bannable: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class PeopleRecord:
    """People who used the bot in a span, have waiting jobs, are banned, or have individual limits.

    They are sorted by GPU seconds, highest first. `since` is the span's start, and `more` counts
    the people left out. `acts` are the newest admin actions, newest first.
    """

    at: float
    since: float
    people: tuple[PersonUse, ...]
    more: int
    acts: tuple[Act, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLine:
    """A record of the program's log as text, numbered from 1."""

    number: int
    level: str
    text: str
