"""The state of jobs, models, servers and hosts in people's terms, and what an admin has paused."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from queueing.core.jobs import Job
from queueing.core.snapshot import Reason, Residency, WaitCause
from queueing.core.specs import Shares

Rest = Literal["paused", "quiet", "yielding", "asleep", "waking"]
"""Why a host does nothing: `paused` by an admin, in its `quiet` hours, `yielding` its GPU to
another program, `asleep`, or `waking`.
"""

_RESTS: Mapping[WaitCause, Rest] = {
    WaitCause.QUIET: "quiet",
    WaitCause.YIELDING: "yielding",
    WaitCause.ASLEEP: "asleep",
    WaitCause.WAKING: "waking",
}


def rest_of(reason: Reason | None, *, paused: bool) -> Rest | None:
    """Return why a host does nothing, None if it works.

    A pause takes precedence over the reason.
    """
    if paused:
        return "paused"
    return None if reason is None else _RESTS.get(reason.why)


@dataclass(frozen=True, kw_only=True, slots=True)
class HostActivity:
    """What runs on a host, what is in its memory, and whether any of its servers is up.

    `running` are models, `copies` are (model, backend, residency), `servers` are those that are up.
    `up` is None until one of them has been checked. `rest` is why nothing starts there.
    """

    running: frozenset[str] = frozenset()
    copies: frozenset[tuple[str, str, Residency]] = frozenset()
    servers: frozenset[str] = frozenset()
    up: bool | None = None
    rest: Rest | None = None


HostsListener = Callable[[Mapping[str, HostActivity]], None]
"""Called in the event loop with changed states by host; must neither block nor raise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pauses:
    """What is paused: everything, or these models and hosts by name.

    Nothing paused starts a job or loads a model; running work ends normally. `awake` maps each host
    that an admin keeps working to the time until which it ignores reasons to rest.
    """

    everything: bool = False
    models: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    awake: Mapping[str, float] = field(default_factory=dict)

    def stops_model(self, model: str) -> bool:
        """Return whether no job of a model may start anywhere."""
        return self.everything or model in self.models

    def stops_host(self, host: str) -> bool:
        """Return whether nothing may start or load on a host."""
        return self.everything or host in self.hosts

    def adding(self, *, model: str | None, host: str | None) -> "Pauses":
        """Return a copy with a model, a host or both paused as well; with neither, everything."""
        return replace(
            self,
            everything=self.everything or (model is None and host is None),
            models=self.models | _one(model),
            hosts=self.hosts | _one(host),
            awake=self._awake_without(host),
        )

    def without(self, *, model: str | None, host: str | None) -> "Pauses":
        """Return a copy without a model, a host or both; with neither, nothing stays paused."""
        if model is None and host is None:
            return Pauses(awake=self.awake)
        return replace(self, models=self.models - _one(model), hosts=self.hosts - _one(host))

    def is_awake(self, host: str, now: float) -> bool:
        """Return whether a host works because an admin keeps it awake."""
        return now < self.awake.get(host, 0.0)

    def waking(self, host: str, until: float) -> "Pauses":
        """Return a copy in which a host works until then, even if it has reasons to rest."""
        return replace(self, awake={**self.awake, host: until})

    def asleep(self, host: str) -> "Pauses":
        """Return a copy in which a host rests when it has a reason to."""
        return replace(self, awake=self._awake_without(host))

    def _awake_without(self, host: str | None) -> Mapping[str, float]:
        return {name: until for name, until in self.awake.items() if name != host}


def _one(name: str | None) -> frozenset[str]:
    return frozenset() if name is None else frozenset({name})


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """When something is expected, and the range in which it probably happens (UNIX seconds).

    - The range is right four times out of five.
    - `soon`: it may happen at any moment.
    - `late`: the range shown before has passed.
    - `measured`: the model's times there are known; otherwise the range is the usual one of its
      kind.
    """

    at: float
    earliest: float
    latest: float
    soon: bool = False
    late: bool = False
    measured: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """A model that a backend could not load, and when the next try is.

    `cause` is for the operator.
    """

    backend: str
    cause: str
    again_at: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """The status of a job, for the person who waits.

    - `shown` is "pending", "needs-loading", "ready" or a stored state's value.
    - `position` is 1 + the number of requests of its model that start first. None if the job does
      not wait or the position is unknown.
    - `overtaken` counts those of these requests that are in other lanes, which start first by their
      lane's share. Only requests of other lanes can arrive later and still raise a position.
    - `overflow`: the job has no place in the queue yet.
    - `starts` and `ends` are when it will probably start and end, None if that cannot be estimated.
    """

    job: Job
    shown: str
    position: int | None = None
    overtaken: int = 0
    overflow: bool = False
    reason: Reason | None = None
    starts: Estimate | None = None
    ends: Estimate | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Promised:
    """The range first shown to a person for the end of their job, and when (UNIX seconds)."""

    given_at: float
    earliest: float
    latest: float

    def kept(self, finished_at: float) -> bool:
        """Return whether a job that ended then kept the promise."""
        return self.off_s(finished_at) == 0

    def off_s(self, finished_at: float) -> float:
        """Return how many seconds outside the range a job ended; 0 within it."""
        return max(0.0, self.earliest - finished_at, finished_at - self.latest)


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyStatus:
    """A copy of a model, in people's terms.

    `ready_at` is when it became ready, or is expected to. `vram_mb` is the memory charged to it.
    `shares` are its MB on each host, if its machine has several GPUs. It loads `ahead` if nobody has
    requested it yet.
    """

    backend: str
    host: str
    residency: Residency
    pinned: bool
    running: int
    vram_mb: int = 0
    ready_at: float = 0.0
    shares: Shares = ()
    ahead: bool = False

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts whose memory it uses."""
        return tuple(host for host, _ in self.shares) or (self.host,)

    def on(self, host: str) -> int:
        """Return the MB it uses on a host."""
        there = dict(self.shares) if self.shares else {self.host: self.vram_mb}
        return there.get(host, 0)


class Readiness(StrEnum):
    """Whether a model can start a job at once, as shown for its waiting jobs."""

    READY = "ready"  # a copy of it is in memory
    NEEDS_LOADING = "needs-loading"  # it is being loaded, or jobs wait until it can be
    ABSENT = "absent"  # it is not in memory, and no job needs it there


@dataclass(frozen=True, kw_only=True, slots=True)
class LaneStatus:
    """A lane of a model in which jobs wait, and how many."""

    lane: str
    waiting: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelStatus:
    """A model in people's terms: where it is, its queue, its usual time and why its queue waits.

    - `reason` is why its queue waits, or without a queue, why its hosts rest.
    - `vram_mb` is the memory of a copy, as configured or measured; None until its first load.
    - `troubles` are the backends that could not load it.
    - `oldest_at` is when the first job in its queues was accepted, None if none waits.
    - `lanes` are those in which jobs wait.
    - `service_s` is None until a job of it has run.
    - `next_ends` is when a job accepted now would end.
    """

    name: str
    waiting: int
    running: int
    copies: tuple[CopyStatus, ...]
    reason: Reason | None
    service_s: float | None
    next_ends: Estimate | None
    vram_mb: int | None
    paused: bool
    troubles: tuple[Trouble, ...]
    oldest_at: float | None = None
    lanes: tuple[LaneStatus, ...] = ()
    readiness: Readiness = Readiness.ABSENT


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningStatus:
    """A job that occupies a slot on a backend; `ends` is the estimate shown to its owner.

    `fraction` of its work is done, None if its server reports none.
    """

    job_id: int
    model: str
    backend: str
    owner: str
    began_at: float
    ends: Estimate | None
    fraction: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BackendStatus:
    """A backend in people's terms; `url` and `error`, the last failure's text, are for operators.

    `hosts` are all GPUs it has on a machine with several; `host` is the first.
    """

    name: str
    host: str
    kind: str
    url: str
    up: bool
    since: float
    description: str
    error: str | None
    hosts: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether it has been checked; until then it is neither up nor down."""
        return self.up or self.error is not None

    def is_on(self, host: str) -> bool:
        """Return whether it uses a host's memory."""
        return host in (self.hosts or (self.host,))


@dataclass(frozen=True, kw_only=True, slots=True)
class HostStatus:
    """A host in people's terms: its memory, the bot's share of it, and whether it is paused.

    - `foreign_mb` is what other programs hold, as last measured; 0 if it is never measured, or if
      it has been unknown `unmeasured_since`.
    - `rest` is why it does nothing although no admin has paused it: quiet hours, or another
      program.
    - `awake_until` is until when an admin keeps it working despite that.
    - `budget_mb` is what models could use without other programs, `usable_mb` what they may use
      now.
    """

    name: str
    vram_mb: int
    usable_mb: int
    used_mb: int
    paused: bool
    foreign_mb: int = 0
    rest: Reason | None = None
    awake_until: float | None = None
    budget_mb: int = 0
    unmeasured_since: float | None = None

    @property
    def resting(self) -> Rest | None:
        """Why it does nothing; None while it works."""
        return rest_of(self.rest, paused=self.paused)


@dataclass(frozen=True, kw_only=True, slots=True)
class StatusReport:
    """The state of models, servers and hosts at one moment, each in the configuration's order.

    `running` are the running jobs, in order of their start.
    """

    models: tuple[ModelStatus, ...]
    backends: tuple[BackendStatus, ...]
    hosts: tuple[HostStatus, ...]
    paused: Pauses
    running: tuple[RunningStatus, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuTime:
    """A person's GPU time in seconds: used by ended jobs, and held for open ones."""

    used_s: float
    held_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class QuarterUse:
    """An owner's GPU time in seconds, in the quarter of an hour that starts at `at`."""

    owner: str
    at: float
    seconds: float
