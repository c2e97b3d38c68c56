"""The queue's events: committed changes, and the progress of running work."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from queueing.core.constructors import quick
from queueing.core.jobs import Job, JobEvent
from queueing.core.requests import Output, Progress
from queueing.core.snapshot import EvictionCause


@dataclass(frozen=True, kw_only=True, slots=True)
class JobChanged:
    """A change of a job was committed; `event` is None for its acceptance or a replaced request.

    `entered` is the model whose queue the next job of the owner's overflow has entered by this
    job's end; None where none has.
    """

    job: Job
    event: JobEvent | None
    entered: str | None = None


make_change = quick(JobChanged)  # one is made for each event


@dataclass(frozen=True, kw_only=True, slots=True)
class Produced:
    """What a job has produced is stored; that the job is completed is the next event.

    Who waits for it in the queue's own process need not read it from the database. No other process
    is told.
    """

    job_id: int
    output: Output


@dataclass(frozen=True, kw_only=True, slots=True)
class Progressed:
    """A running attempt made progress."""

    job_id: int
    progress: Progress


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuesMoved:
    """Positions or reasons of the waiting jobs of `models` may have changed, and all their times.

    For the models in `outlooks` only times may have changed, because another queue on their hosts
    moved. For those in `turned`, some of `models`, the kind of state changed: another reason, or on
    one of their hosts a load began, ended or failed, a copy left, or a server went away or came
    back.
    """

    models: frozenset[str]
    outlooks: frozenset[str] = frozenset()
    turned: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Forgotten:
    """These jobs, all ended, are about to be deleted for good: drop every reference to them now."""

    job_ids: frozenset[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Erased:
    """These jobs have been deleted durably."""

    job_ids: frozenset[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class EventsMissed:
    """Events may have been lost on the way from another process: read again what is open.

    The queue in this process never announces it.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Stopping:
    """The queue begins an orderly stop: no job starts, and what does not end soon is interrupted.

    All open jobs are kept; interrupted ones start over after the restart.
    """


class LoadCause(StrEnum):
    """Why a model was loaded."""

    REQUEST = "request"  # jobs wait for it
    COPY = "copy"  # jobs wait for it, and a copy elsewhere is not enough
    PRELOAD = "preload"  # an admin or the configuration keeps it loaded


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadEnded:
    """A load has ended after so many seconds, what had to leave first included.

    `hosts` are those that the copy lies on: several where it spans GPUs.
    """

    model: str
    backend: str
    hosts: tuple[str, ...]
    cause: LoadCause
    seconds: float
    failed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyLeft:
    """A server has unloaded a copy, which lay on these hosts, for the reason `why`."""

    model: str
    backend: str
    hosts: tuple[str, ...]
    why: EvictionCause


Event = (
    JobChanged
    | Produced
    | Progressed
    | QueuesMoved
    | Forgotten
    | Erased
    | EventsMissed
    | Stopping
    | LoadEnded
    | CopyLeft
)
Listener = Callable[[Event], None]
"""Called after the commit, in the event loop; must neither block nor raise."""
