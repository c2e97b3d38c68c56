"""A job and its lifecycle: the state table, without the code that applies it.

`TRANSITIONS` holds every legal change of state. `JobStore.apply` reads it, and a test compares the
diagram in `docs/job-lifecycle.md` with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from queueing.core.constructors import quick
from queueing.core.requests import Capability, Embed, File, Request, TextToImage

LANES = ("vip", "normal", "relaxed")
LATER = "later"
"""The lane of jobs that run when nothing else waits for their hosts."""

HELD_UNTIL = 1e12
"""The `not_before` of a held job: a time no clock reaches."""


class JobState(StrEnum):
    """The stored states of a job."""

    PENDING = "pending"  # accepted, in its queue or in its owner's overflow
    PROCESSING = "processing"  # a backend works on it
    COMPLETED = "completed"  # its output is stored; delivery is tracked separately
    FAILED = "failed"  # ended with an error text
    CANCELLED = "cancelled"  # ended by its owner or an admin

    @property
    def final(self) -> bool:
        """Whether no transition leads out of this state."""
        return self in FINAL


FINAL = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED})


class JobEvent(StrEnum):
    """An event in a job's life."""

    START = "start"  # attempt + 1, sendings + 1; runner and backend stored
    COMPLETE = "complete"  # output stored in the same transaction
    RETRY = "retry"  # not_before is set; keeps its place
    RELEASE = "release"  # attempt - 1: the job is not charged for an orderly stop or an eviction
    FAIL = "fail"  # short error text
    CANCEL = "cancel"


_PENDING = frozenset({JobState.PENDING})
_PROCESSING = frozenset({JobState.PROCESSING})
_OPEN = _PENDING | _PROCESSING

TRANSITIONS: Mapping[JobEvent, tuple[frozenset[JobState], JobState]] = {
    JobEvent.START: (_PENDING, JobState.PROCESSING),
    JobEvent.COMPLETE: (_PROCESSING, JobState.COMPLETED),
    JobEvent.RETRY: (_PROCESSING, JobState.PENDING),
    JobEvent.RELEASE: (_PROCESSING, JobState.PENDING),
    JobEvent.FAIL: (_OPEN, JobState.FAILED),
    JobEvent.CANCEL: (_OPEN, JobState.CANCELLED),
}


def is_bulk(request: Request) -> bool:
    """Return whether a job is bulk: small work that programs submit in great numbers.

    Bulk jobs have a separate overflow and a separate limit on open jobs, so they do not take the
    owner's other places. They do not count against the hourly quota and do not appear in the
    history.
    """
    return isinstance(request, Embed)


@dataclass(frozen=True, kw_only=True, slots=True)
class NewJob:
    """A request to be accepted.

    - `owner` is the person whose limits apply ("telegram:42").
    - `key` makes acceptance idempotent: a redelivered update finds the job it made before.
    - `reply_to` is opaque to the queue; the bot finds its chat by it.
    - `parent` names the job it is made for, such as to enhance its prompt.
    - `delay_s` keeps a job from starting for that long after acceptance, while its prompt is
      enhanced. It keeps its place.
    - `held` keeps it from starting until its request is replaced, while its recording is
      transcribed. It keeps its place.
    - `remembered_by` is the backend that has processed its conversation so far, None for a new one.
    - `gpu_s` is the expected GPU time, charged to its owner's limit; 0 without a limit.
    - `due_at`: a job in the lane `LATER` starts early enough to be done by then.
    - `wait_s`: the job ends if it has not started within that time.
    """

    model: str
    request: Request
    files: tuple[File, ...] = ()
    owner: str
    lane: str = "normal"
    parent: int | None = None
    reply_to: str = ""
    key: str
    delay_s: float = 0.0
    held: bool = False
    remembered_by: str | None = None
    gpu_s: float = 0.0
    due_at: float | None = None
    wait_s: float | None = None

    @property
    def needs(self) -> Capability:
        """The capability a model needs for the request with its files."""
        return self.request.needs(has_files=bool(self.files))


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One stored request and its lifecycle; a change makes a new value. Times are UNIX seconds.

    - `seq` is the place in its queue, None while it waits in its owner's overflow.
    - `attempt` counts the starts the job is charged for.
    - `sendings` counts all starts and never decreases, so no id made from it is used twice.
    - `backend` names where the newest attempt runs or ran.
    - `suspect` marks a job that was running when its server died: it runs alone next time.
    - `remembered_by` names the backend that has processed its conversation so far, which may have
      been removed since.
    - `gpu_s` is its expected GPU time, 0 if its owner's time is not limited.
    - `due_at` is when it should be done, `expires_at` when it ends if it has not started.
    - `moved`: an admin put it first in its queue, ahead of the regular order.
    """

    id: int
    model: str
    request: Request
    owner: str
    lane: str
    parent: int | None = None
    reply_to: str = ""
    state: JobState = JobState.PENDING
    seq: int | None = None
    attempt: int = 0
    version: int = 0
    not_before: float = 0.0
    queued_at: float
    started_at: float | None = None
    finished_at: float | None = None
    backend: str | None = None
    suspect: bool = False
    error: str | None = None  # code of a `queueing.core.errors.Problem`
    acknowledged: bool = False
    sendings: int = 0
    remembered_by: str | None = None
    gpu_s: float = 0.0
    due_at: float | None = None
    expires_at: float | None = None
    moved: bool = False

    @property
    def held(self) -> bool:
        """Whether it cannot start until its request is replaced."""
        return self.state is JobState.PENDING and self.not_before >= HELD_UNTIL


@dataclass(frozen=True, kw_only=True, slots=True)
class SubmitLimits:
    """The limits that a new job is checked against; None for no limit.

    Bulk jobs (`is_bulk`), deferred jobs and all others of an owner are counted separately.

    - `max_open`: open jobs of the owner. `max_queued` of them have a place in a queue, the rest
      wait in the owner's overflow.
    - `max_waiting`: jobs in the model's queue and overflow together.
    - `max_per_hour`: accepted jobs of the owner in any hour, including deleted but not failed ones.
    - `max_gpu_s`: GPU seconds of the owner's jobs, bulk included: used by those that ended since
      `gpu_since`, and expected of the open ones. A job is accepted while any of this time is left.
    """

    max_open: int | None = None
    max_queued: int | None = None
    max_waiting: int | None = None
    max_per_hour: int | None = None
    max_gpu_s: float | None = None
    gpu_since: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class StartOrder:
    """A waiting job's place among the startable jobs of its model.

    `number` counts from 1 within the job's lane. It is None while others pass the job or while it
    is starting. `lanes` counts the startable jobs in each lane of the model.
    """

    number: int | None
    lanes: Mapping[str, int]


make_job = quick(Job)  # called for each event and each forecast
_NOTHING = TextToImage(prompt="")


def stand_in(
    job_id: int, model: str, queued_at: float, *, lane: str = "normal", suspect: bool = False
) -> Job:
    """Return a waiting job without a stored request, for trial plans and forecasts.

    `job_id` also serves as its `seq`.
    """
    return make_job(
        id=job_id,
        model=model,
        request=_NOTHING,
        owner="",
        lane=lane,
        seq=job_id or None,
        queued_at=queued_at,
        suspect=suspect,
    )
