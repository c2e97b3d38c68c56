"""JobQueue: the front door of the queue; the bot reaches the store only through it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from queueing.jobs import Job, NewJob
from queueing.ports import Admission, Listener
from queueing.requests import File, Output
from queueing.world import Reason, Residency


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """Where a job stands, for the person who waits.

    `shown` is "pending", "needs-loading", "ready" or a stored state's value. `position` counts
    from 1 and is None unless the job waits; `back_row` tells that it has no place in line yet.
    `done_at` is the expected moment of its end (UNIX seconds), `done_spread_s` how far it may be
    off; None where nothing can honestly be said.
    """

    job: Job
    shown: str
    position: int | None = None
    back_row: bool = False
    reason: Reason | None = None
    done_at: float | None = None
    done_spread_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyStatus:
    """A copy of a model as people see it."""

    backend: str
    host: str
    residency: Residency
    pinned: bool
    running: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelStatus:
    """A model as people see it: where it is, its line, its usual time and why its line waits."""

    name: str
    waiting: int
    running: int
    copies: tuple[CopyStatus, ...]
    reason: Reason | None
    service_s: float
    next_done_at: float | None  # when a job accepted now would be done


@dataclass(frozen=True, kw_only=True, slots=True)
class BackendStatus:
    """A backend as people see it; `error` is the operator's last failure text."""

    name: str
    host: str
    kind: str
    up: bool
    since: float
    description: str
    error: str | None


class JobQueue:
    """Accepts, cancels and reports jobs; runs the router until cancelled."""

    async def submit(self, new: NewJob, *, limits: Admission) -> Job:
        """Accept a job durably. Raises `Refused`. A known key returns the job it made before."""
        raise NotImplementedError

    async def cancel(self, job_id: int) -> Job | None:
        """End a job on a person's wish and stop its work on the server; idempotent.

        Returns the job as it is afterwards (perhaps completed: it was faster), None if unknown.
        """
        raise NotImplementedError

    async def preload(self, model: str, host: str | None) -> str:
        """Load a model and pin it; return the backend it is on. Raises `Refused`, `BackendError`.

        Waits until it is loaded. Idempotent: a copy already there is pinned.
        """
        raise NotImplementedError

    async def unload(self, model: str, host: str | None) -> Sequence[str]:
        """Unpin and unload a model's idle copies, busy ones as soon as they are idle.

        Returns the backends it left. Raises `Refused`, `BackendError`.
        """
        raise NotImplementedError

    async def get(self, job_id: int) -> Job | None:
        """Return a job, or None."""
        raise NotImplementedError

    async def open_jobs(self, owner: str | None = None) -> list[Job]:
        """Return the open jobs of an owner, or of everybody, oldest first."""
        raise NotImplementedError

    async def standings(self, jobs: Sequence[Job]) -> Mapping[int, Standing]:
        """Return where each job stands, by job id."""
        raise NotImplementedError

    def models(self) -> Sequence[ModelStatus]:
        """Return every model's status, in the configuration's order."""
        raise NotImplementedError

    def backends(self) -> Sequence[BackendStatus]:
        """Return every backend's status."""
        raise NotImplementedError

    async def inputs(self, job: Job) -> tuple[File, ...]:
        """Return the files the job was accepted with."""
        raise NotImplementedError

    async def output(self, job: Job) -> Output | None:
        """Return what a completed job produced, None after retention removed it."""
        raise NotImplementedError

    async def unacknowledged(self) -> list[Job]:
        """Return the jobs that are open, or ended and not yet acknowledged, oldest first."""
        raise NotImplementedError

    async def acknowledge(self, job: Job) -> None:
        """Note that the person has the job's end. Idempotent."""
        raise NotImplementedError

    def subscribe(self, listener: Listener) -> None:
        """Call the listener after every committed change and on progress."""
        raise NotImplementedError

    async def run(self) -> None:
        """Recover, then route until cancelled; then give running jobs their grace and stop."""
        raise NotImplementedError
