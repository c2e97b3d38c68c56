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

    If the end of this job let the owner's next overflow job enter a queue, `entered` is the model
    of that queue.
    """

    job: Job
    event: JobEvent | None
    entered: str | None = None


make_change = quick(JobChanged)  # one is made for each event


@dataclass(frozen=True, kw_only=True, slots=True)
class Produced:
    """A job's output is stored; the next event reports its completion.

    Listeners in the queue's process need not read the output from the database. The event is not
    sent to other processes.
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
    """Positions, reasons or times of waiting jobs may have changed.

    - `models`: any of these may have changed for their jobs.
    - `outlooks`: only times may have changed, because another queue on these models' hosts moved.
    - `turned`, a subset of `models`: the reason changed, a load began, ended or failed on one of
      their hosts, a copy left, or a server went away or came back.
    """

    models: frozenset[str]
    outlooks: frozenset[str] = frozenset()
    turned: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Forgotten:
    """These jobs, all ended, are about to be deleted for good: drop every reference to them."""

    job_ids: frozenset[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Erased:
    """These jobs have been deleted durably."""

    job_ids: frozenset[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class EventsMissed:
    """Events from another process may have been lost: read the open jobs again.

    The process that runs the queue never publishes it.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Stopping:
    """The queue begins an orderly stop: no job starts, and long-running jobs are interrupted.

    All open jobs are kept; interrupted ones start over after the restart.
    """


class LoadCause(StrEnum):
    """Why a model was loaded."""

    REQUEST = "request"  # jobs wait for it
    COPY = "copy"  # jobs wait for it, and one copy elsewhere is not enough
    PRELOAD = "preload"  # an admin or the configuration keeps it loaded
    AHEAD = "ahead"  # nobody has requested it yet


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadEnded:
    """A load has ended. `seconds` include the evictions before it.

    `hosts` are those whose memory the copy uses: several if it spans GPUs.
    """

    model: str
    backend: str
    hosts: tuple[str, ...]
    cause: LoadCause
    seconds: float
    failed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyLeft:
    """A server has unloaded a copy from these hosts; `why` is the cause."""

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
