"""The input and output of `plan()`: plain frozen values, without behaviour.

The router builds a `Snapshot` from the store and the fleet, `plan()` answers with a `Plan`, and the
router carries it out. Durations are seconds, moments UNIX seconds, memory MB.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Literal

from queueing.core.jobs import Job
from queueing.core.quiet_hours import QuietSpan
from queueing.core.specs import Shares

LONG_QUEUE = 50
"""So many jobs that wait for a model are worth a warning."""


class Residency(StrEnum):
    """The small lifecycle of a copy: absent, loading, ready, unloading, absent."""

    LOADING = "loading"
    READY = "ready"
    UNLOADING = "unloading"


class WaitCause(StrEnum):
    """Why a model does not start; the bot has a sentence for each in every language."""

    QUEUED = "queued"  # its copies are busy with jobs ahead
    LOADING = "loading"  # being loaded, until `until`
    ROOM_BUSY = "room-busy"  # running jobs of `other` must end there before it can be loaded
    LOADER_BUSY = "loader-busy"  # the host loads `other` first, until `until`
    RESERVED = "reserved"  # the host is reserved for `other`, which has waited longer
    GATED = "gated"  # ready, but `other` has waited longer and goes first
    NO_ROOM = "no-room"  # other programs hold the memory it needs
    PINNED = "pinned"  # an admin keeps `other` in the memory it needs
    KEPT = "kept"  # `other` is in the memory it needs, and its server unloads nothing when asked
    OFFLINE = "offline"  # no host that has it is up, since `since`
    LOAD_PAUSE = "load-pause"  # its last load failed; tried again at `until`
    RETRY_PAUSE = "retry-pause"  # every waiting job pauses after a failed attempt, until `until`
    ENHANCING = "enhancing"  # a text model improves the prompts of its waiting jobs
    HELD = "held"  # what its waiting jobs ask is still being written down
    PAUSED = "paused"  # by an admin
    QUIET = "quiet"  # its host is kept free until `until`
    QUIET_SOON = "quiet-soon"  # it would not end before the quiet hours from `since` to `until`
    WAKING = "waking"  # its host slept and is being woken, until `until`
    ASLEEP = "asleep"  # its host sleeps until it is needed
    YIELDING = "yielding"  # another program has had the GPU of its host since `since`
    SUSPECT = "suspect"  # it runs alone, after `other` has ended
    LATER = "later"  # until nothing else waits; to be done by `until`
    LATE = "late"  # the same, but it may not be done by `until`
    STARTING = "starting"  # it starts now


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """Why the waiting jobs of a model wait. `host` and `other` name a host and another model.

    `backend` names a server that is away while its host is not.
    Of a load over several GPUs, `host` names all of them (`specs.together`).
    """

    why: WaitCause
    model: str
    host: str | None = None
    backend: str | None = None
    other: str | None = None
    since: float | None = None
    until: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """A model in (or on its way into or out of) a backend's memory.

    `ready_at` is when it became ready, or is expected to. `running` counts the jobs it runs,
    `ends_at` are their expected ends if known (estimates only; no decision about safety rests on
    them). Only an admin evicts `pinned` copies. One without a job since `idle_since` leaves after
    `idle_unload_s`. `shares` are what it takes on each host, where its machine has several GPUs.
    """

    model: str
    backend: str
    residency: Residency
    ready_at: float
    vram_mb: int
    running: int = 0
    pinned: bool = False
    ends_at: tuple[float, ...] = ()
    idle_since: float = 0.0
    idle_unload_s: float = inf
    shares: Shares = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class BackendView:
    """A backend in the planner's terms.

    `busy` counts everything that occupies it: running jobs and, on a serial one, its load.
    `max_models` bounds how many models it keeps at once (1 for a plain ComfyUI process); models
    that take no memory do not count. `hosts` are all GPUs it has on a machine with several; `host`
    is the first.
    """

    name: str
    host: str
    hosts: tuple[str, ...] = ()
    up: bool = True
    since: float = 0.0
    serial: bool = False
    parallel: int = 64
    busy: int = 0
    max_models: int | None = None
    unloads_together: bool = False
    can_unload: bool = True
    paused: bool = False
    alone: bool = False  # a suspect job runs here: nothing else may start


@dataclass(frozen=True, kw_only=True, slots=True)
class HostView:
    """A memory budget. The margin and other programs' memory are already taken off `usable_mb`.

    `quiet` are the spans in which its owner wants it, the soonest first, `longest_open_s` is the
    longest time between two of them. `yields_since` is since when another program has its GPU.
    A machine that is `asleep` can be woken, though it may have `overslept` the last call; until
    `waking_until` it is on its way back.
    """

    name: str
    usable_mb: int
    budget_mb: int  # with only the margin taken off: what it could offer without other programs
    machine: str = ""  # of which it is a GPU; it sleeps and wakes as one
    paused: bool = False
    quiet: tuple[QuietSpan, ...] = ()
    longest_open_s: float = inf
    yields_since: float | None = None
    asleep: bool = False
    overslept: bool = False
    waking_until: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """The startable head of one lane of a model, and how many wait with it."""

    lane: str
    count: int
    heads: tuple[Job, ...]
    oldest_at: float
    next_start_at: float | None = None
    held: bool = False  # a job that may not start yet waits for its prompt, not after a failure


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueHead:
    """The waiting jobs of one model and lane.

    `waiting` counts those with a place (not the overflow); `heads` are the first startable ones in
    order, `first_queued_at` the acceptance of the very first waiting one, startable or not;
    `next_start_at` is when a delayed or pausing job before or among the heads becomes startable;
    `held` says that one of those has never started: its prompt is being improved. `passed` are the
    jobs before the first head, which others pass while they pause.
    """

    model: str
    lane: str
    waiting: int
    heads: tuple[Job, ...]
    first_queued_at: float
    next_start_at: float | None = None
    held: bool = False
    passed: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelView:
    """A model in the planner's terms; only models that wait or have copies need be present.

    `load_s` and `service_s` are learned or prior, by backend name with "" for the default.
    `copies` is how many of it one host may hold. `rate_per_s` is the arrival rate λ. `left_at` is its last eviction anywhere (0 for never),
    `load_after` the end of the pause after failed loads. `shares` are what a copy takes on each host,
    by backend, on machines with several GPUs.
    """

    name: str
    vram_mb: int
    backends: tuple[str, ...]
    parallel: int = 1
    copies: int = 1
    load_s: Mapping[str, float] = field(default_factory=dict)
    service_s: Mapping[str, float] = field(default_factory=dict)
    rate_per_s: float = 0.0
    left_at: float = 0.0
    load_after: float = 0.0
    paused: bool = False
    waiting: tuple[Waiting, ...] = ()
    wanted_by_admin: tuple[str, ...] = ()  # backends an admin asked to preload it on
    shares: Mapping[str, Shares] = field(default_factory=dict)


class EvictionCause(StrEnum):
    """Why a copy leaves."""

    ROOM = "room"  # another model is loaded in its place
    MEMORY = "memory"  # other programs have taken memory of its host
    IDLE = "idle"  # it was not used for a while
    ADMIN = "admin"  # an admin unloaded it, or drained its host
    DRAINED = "drained"  # likewise, or its server lost it, but only now that its jobs have ended
    FAILURE = "failure"  # a failed load may have left half of it
    QUIET = "quiet"  # its host's quiet hours begin
    OTHERS = "others"  # another program has its GPU


@dataclass(frozen=True, kw_only=True, slots=True)
class Evict:
    """Unload this idle copy; `why` is for the log and the metrics."""

    model: str
    backend: str
    why: EvictionCause = field(default=EvictionCause.ROOM, compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """A host kept for a model that is overdue (rule R4); `due` orders reservations.

    `hosts` are all the GPUs of a model that spans them; `host` is the first.
    """

    host: str
    backend: str
    model: str
    due: float
    victims: tuple[Evict, ...]  # the copies that must leave
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """The planner's settings; the defaults are the study's."""

    patience: float = 4.0  # κ of the age gate
    age_limit_s: float = 120.0
    gate: bool = True  # R4
    replicate: bool = True  # R5
    double: bool = True  # R5 on a host that has a copy already
    replicate_ratio: float = 3.0
    order: Literal["fifo", "fair"] = "fifo"  # of the jobs in a queue
    overtaken_s: float = 1800.0  # how much later than by arrival a fair order may make a start
    lane_weights: Mapping[str, int] = field(
        default_factory=lambda: {"vip": 4, "normal": 2, "relaxed": 1}
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """One snapshot of everything the decision depends on.

    `job_s` is how long waiting jobs take, by job id and backend, where more is known than of their
    model.
    """

    now: float
    models: Mapping[str, ModelView]
    hosts: Mapping[str, HostView]
    backends: Mapping[str, BackendView]
    copies: tuple[Copy, ...]
    reservations: tuple[Reservation, ...] = ()  # of the last plan
    lane_spent: Mapping[tuple[str, str], int] = field(default_factory=dict)  # of the last plan
    rules: Rules = field(default_factory=Rules)
    job_s: Mapping[tuple[int, str], float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """Start this job on this backend now."""

    job: Job
    backend: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """Load this model on this backend now, once these copies have left its host."""

    model: str
    backend: str
    evict: tuple[Evict, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What happens now, and why the rest waits.

    `look_at` is the next moment at which time alone can change the answer, None for never.
    """

    starts: tuple[Start, ...] = ()
    loads: tuple[Load, ...] = ()
    evictions: tuple[Evict, ...] = ()  # without a load
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    reservations: tuple[Reservation, ...] = ()
    lane_spent: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by model and lane
    look_at: float | None = None
