"""The input and output of `plan()`: plain frozen values, without behaviour.

The scheduler builds a `Snapshot` from the store and the fleet, `plan()` returns a `Plan`, and the
scheduler carries it out. Durations are seconds, times UNIX seconds, memory MB.
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
"""Number of waiting jobs per model that triggers a warning."""


class Residency(StrEnum):
    """The lifecycle of a copy: absent, loading, ready, unloading, absent."""

    LOADING = "loading"
    READY = "ready"
    UNLOADING = "unloading"


class WaitCause(StrEnum):
    """Why a model does not start; the bot has a sentence for each in every language."""

    QUEUED = "queued"  # its copies are busy with earlier jobs
    LOADING = "loading"  # being loaded, until `until`
    ROOM_BUSY = "room-busy"  # running jobs of `other` must end there before it can be loaded
    LOADER_BUSY = "loader-busy"  # the host loads `other` first, until `until`
    RESERVED = "reserved"  # the host is reserved for `other`, which has waited longer
    GATED = "gated"  # ready, but `other` has waited longer and goes first
    NO_ROOM = "no-room"  # other programs hold the memory it needs
    PINNED = "pinned"  # an admin keeps `other` in the memory it needs
    KEPT = "kept"  # `other` occupies the memory, and its server cannot unload on request
    OFFLINE = "offline"  # no host that has it is up, since `since`
    KEY = "key"  # its server `backend` refuses the key
    LOAD_PAUSE = "load-pause"  # its last load failed; the next try is at `until`
    RETRY_PAUSE = "retry-pause"  # all waiting jobs are in backoff after failures, until `until`
    ENHANCING = "enhancing"  # a text model enhances the prompts of its waiting jobs
    HELD = "held"  # recordings in its waiting jobs are still being transcribed
    PAUSED = "paused"  # by an admin
    QUIET = "quiet"  # its host is kept free until `until`
    QUIET_SOON = "quiet-soon"  # it would not end before the quiet hours from `since` to `until`
    WAKING = "waking"  # its host was asleep and is waking, until `until`
    ASLEEP = "asleep"  # its host sleeps until it is needed
    YIELDING = "yielding"  # another program has had the GPU of its host since `since`
    SUSPECT = "suspect"  # it runs alone, after `other` has ended
    LATER = "later"  # deferred until nothing else waits; to be done by `until`
    LATE = "late"  # deferred likewise, but it may miss `until`
    STARTING = "starting"  # it starts now


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """Why the waiting jobs of a model wait. `host` and `other` name a host and another model.

    `backend` names a server that is down while its host is not. For a load over several GPUs,
    `host` names all of them (`specs.together`).
    """

    why: WaitCause
    model: str
    host: str | None = None
    backend: str | None = None
    other: str | None = None
    since: float | None = None
    until: float | None = None


_OPEN_ENDED = frozenset(
    {
        WaitCause.PAUSED,
        WaitCause.OFFLINE,
        WaitCause.KEY,
        WaitCause.NO_ROOM,
        WaitCause.PINNED,
        WaitCause.KEPT,
        WaitCause.YIELDING,
    }
)


def is_open_ended(reason: Reason | None) -> bool:
    """Return whether the wait depends on people, so that no time can be estimated."""
    return reason is not None and reason.why in _OPEN_ENDED


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """A copy of a model in (or on its way into or out of) a backend's memory.

    - `ready_at` is when it became ready, or is expected to.
    - `running` counts the jobs it runs. `ends_at` are their expected ends if known; these are
      estimates, and no decision about safety depends on them.
    - Only an admin evicts `pinned` copies.
    - A copy without a job since `idle_since` is unloaded after `idle_unload_s`.
    - `shares` is its memory on each host, if its machine has several GPUs.
    - It loads `ahead` if nobody has requested it yet.
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
    ahead: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class BackendView:
    """A backend as the planner sees it.

    - `busy` counts everything that occupies it: running jobs and, on a serial backend, its load.
    - `max_models` limits how many models it keeps at once (1 for a plain ComfyUI process). Models
      that take no memory do not count.
    - `hosts` are all GPUs it has on a machine with several; `host` is the first.
    - `stops_loads` is whether it can stop a load it has begun.
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
    stops_loads: bool = False
    paused: bool = False
    key_refused: bool = False  # it is down because it does not accept its key
    alone: bool = False  # a suspect job runs here: nothing else may start


@dataclass(frozen=True, kw_only=True, slots=True)
class HostView:
    """A memory budget.

    The margin and other programs' memory are already subtracted from `usable_mb`.

    - `quiet` are its quiet spans, the soonest first. `longest_open_s` is the longest time between
      two of them.
    - `yields_since` is when another program took its GPU.
    - A machine that is `asleep` can be woken, though it may have ignored the last call
      (`overslept`). It is waking until `waking_until`.
    - `loads_ahead` is whether it may load a model before anybody requests it.
    """

    name: str
    usable_mb: int
    budget_mb: int  # with only the margin subtracted: the budget without other programs
    machine: str = ""  # the machine this GPU belongs to, which sleeps and wakes as a whole
    paused: bool = False
    quiet: tuple[QuietSpan, ...] = ()
    longest_open_s: float = inf
    yields_since: float | None = None
    asleep: bool = False
    overslept: bool = False
    waking_until: float | None = None
    loads_ahead: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """One lane of a model: its first startable jobs (`heads`), and how many jobs wait (`count`)."""

    lane: str
    count: int
    heads: tuple[Job, ...]
    oldest_at: float
    next_start_at: float | None = None
    held: bool = False  # a job that may not start yet waits for its prompt, not for a retry


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueHead:
    """The waiting jobs of one model and lane.

    - `waiting` counts those with a place, without the overflow.
    - `heads` are the first startable ones in order.
    - `first_queued_at` is when the very first waiting job was accepted, startable or not.
    - `next_start_at` is when a delayed or pausing job before or among the heads becomes startable.
    - `held`: such a job has never started, because its prompt is being enhanced.
    - `passed` are the jobs before the first head, which others pass while they pause.
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
    """A model as the planner sees it; only models with waiting jobs or copies need be present.

    - `load_s` and `service_s` are learned or prior, by backend name, with "" for the default.
    - `copies` is how many copies one host may hold.
    - `rate_per_s` is the arrival rate λ.
    - `left_at` is its last eviction on any backend (0 for never).
    - `load_after` is when the backoff after failed loads ends.
    - `shares` is a copy's memory on each host, by backend, on machines with several GPUs.
    - `ahead_until` is until when it may be loaded before anybody requests it (0 for never).
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
    ahead_until: float = 0.0


class EvictionCause(StrEnum):
    """Why a copy is unloaded."""

    ROOM = "room"  # another model is loaded in its place
    MEMORY = "memory"  # other programs use memory of its host
    IDLE = "idle"  # it had no job for its idle time
    ADMIN = "admin"  # an admin unloaded it, or drained its host
    DRAINED = "drained"  # like `ADMIN`, or its server lost it; delayed until its jobs had ended
    FAILURE = "failure"  # a failed load may have left parts of it in memory
    QUIET = "quiet"  # its host's quiet hours begin
    OTHERS = "others"  # another program uses its GPU


@dataclass(frozen=True, kw_only=True, slots=True)
class Evict:
    """Unload this idle copy; `why` is for the log and the metrics."""

    model: str
    backend: str
    why: EvictionCause = field(default=EvictionCause.ROOM, compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """A host reserved for a model that is overdue (rule R4); `due` orders reservations.

    `hosts` are all GPUs of a model that spans them; `host` is the first.
    """

    host: str
    backend: str
    model: str
    due: float
    victims: tuple[Evict, ...]  # the copies that must leave
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """The planner's settings. `docs/decisions/0003-scheduling.md` explains the defaults."""

    patience: float = 4.0  # κ, the factor of the age cutoff (R4)
    age_limit_s: float = 120.0
    gate: bool = True  # whether R4 applies
    replicate: bool = True  # whether R5 applies
    double: bool = True  # whether R5 applies on a host that already has a copy
    replicate_ratio: float = 3.0
    order: Literal["fifo", "fair"] = "fifo"  # of the jobs in a queue
    overtaken_s: float = 1800.0  # seconds by which a fair order may delay a start
    lane_weights: Mapping[str, int] = field(
        default_factory=lambda: {"vip": 4, "normal": 2, "relaxed": 1}
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """Everything a planning decision depends on, at one moment.

    `job_s` is how long waiting jobs take, by job id and backend, where more is known than their
    model's average.
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
    """Load this model on this backend now, after unloading these copies from its host.

    It loads `ahead` if nobody has requested it yet.
    """

    model: str
    backend: str
    evict: tuple[Evict, ...] = ()
    ahead: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What happens now, and why the rest waits.

    `look_at` is the next time at which the plan can change without any event, None for never.
    """

    starts: tuple[Start, ...] = ()
    loads: tuple[Load, ...] = ()
    evictions: tuple[Evict, ...] = ()  # without a load
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    reservations: tuple[Reservation, ...] = ()
    lane_spent: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by model and lane
    look_at: float | None = None
