"""What the queue tells those who listen: changes that are committed, and how far work has come."""

from collections.abc import Callable
from dataclasses import dataclass

from queueing.jobs import Job, JobEvent
from queueing.requests import Progress


@dataclass(frozen=True, kw_only=True, slots=True)
class JobChanged:
    """A change of a job was committed; `event` is None for its acceptance or another request."""

    job: Job
    event: JobEvent | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Progressed:
    """A running attempt got further."""

    job_id: int
    progress: Progress


@dataclass(frozen=True, kw_only=True, slots=True)
class LinesMoved:
    """Positions, reasons or times of the waiting jobs of these models may have changed."""

    models: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Forgotten:
    """These jobs, all ended, are about to be deleted for good: let go of them now."""

    job_ids: frozenset[int]


Event = JobChanged | Progressed | LinesMoved | Forgotten
Listener = Callable[[Event], None]
"""Called after the commit, in the event loop; must neither block nor raise."""
