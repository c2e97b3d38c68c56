"""The parts of the queue as the bot sees them: one port for each thing that can be asked of it."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from queueing.core.catalog import Offer
from queueing.core.errors import Problem
from queueing.core.events import Listener
from queueing.core.jobs import Job, JobState, NewJob, SubmitLimits
from queueing.core.requests import File, Output, Request, Result, ResultFile
from queueing.core.snapshot import Reason
from queueing.core.status import GpuTime, Pauses, Standing, StatusReport


class JobFiles(Protocol):
    """Reads what jobs were accepted with and what they produced.

    Both may be large: every process reads them from the database that it has open, whoever holds
    the queue.
    """

    async def inputs(self, job: Job) -> tuple[File, ...] | None:
        """Return the files the job was accepted with; None after retention removed them."""

    async def output(self, job: Job) -> Output | None:
        """Return what a completed job produced; None after retention removed it."""


class JobReader(JobFiles, Protocol):
    """Reads jobs by number, key or owner, and what people took of the GPUs in the last two days.

    Every call raises `StoreError` when the database fails.
    """

    async def get(self, job_id: int) -> Job | None:
        """Return a job, or None."""

    async def find(self, key: str) -> Job | None:
        """Return the job accepted under an idempotency key, or None."""

    async def open_jobs(self, owner: str | None = None) -> list[Job]:
        """Return the open jobs of an owner, or of all owners, oldest first."""

    async def held_jobs(self) -> list[Job]:
        """Return the jobs that start only once they are given another request, oldest first."""

    async def history(
        self,
        owner: str,
        *,
        limit: int,
        before: int | None = None,
        made_for_jobs: bool = False,
        states: tuple[JobState, ...] = (),
    ) -> list[Job]:
        """Return an owner's jobs, open and ended, newest first.

        `before` is the id of a job: only older ones are returned. Enhancements and other jobs made
        for a job, and bulk, are left out unless `made_for_jobs`.
        With `states`, only jobs in one of them are returned.
        """

    async def gpu_used(self, since: float) -> Mapping[str, float]:
        """Return how many seconds of the GPUs each owner's jobs took since a moment."""

    async def gpu_time(self, owner: str, since: float) -> GpuTime:
        """Return what an owner's jobs took of the GPUs since a moment, and what is held.

        A job counts from its end; a failed one never does.
        """


class ResultFiles(Protocol):
    """The files of all results, by job and number (counted from 1)."""

    async def result(self, job_id: int) -> Result | None:
        """Return a job's result, None if there is none (any more)."""

    async def head(self, job_id: int, number: int) -> ResultFile | None:
        """Return a file's properties, None if it is not kept (any more)."""

    async def piece(self, job_id: int, number: int, start: int, length: int) -> bytes | None:
        """Return up to `length` bytes from `start`; None if the file is not kept (any more)."""


class JobSubmitter(Protocol):
    """Accepts, changes and cancels jobs; every change is durable when the call returns."""

    async def submit(self, new: NewJob, *, limits: SubmitLimits) -> Job:
        """Accept a job. Raises `Refused`, and `StoreError`.

        A known `key` returns the job it made before and changes nothing, whatever the limits: a
        call that may or may not have arrived is made again. The model may be given by an alias.
        """

    async def cancel(self, job_id: int) -> Job | None:
        """End a job at a person's request and stop its work on the server; idempotent.

        Returns the job as it is afterwards (perhaps completed: it was faster), None if unknown.
        Raises `StoreError`.
        """

    async def replace_request(
        self,
        job_id: int,
        request: Request,
        *,
        files: Sequence[File] = (),
        reply_to: str | None = None,
        release: bool = True,
        version: int | None = None,
    ) -> Job | None:
        """Replace the request of a job that never started and let it start at once.

        `files` are added to its inputs, `reply_to` replaces its own. It keeps its place; its delay
        ends, unless it is not to be released. Returns the job as it is then, None when it has
        started or ended already, or has another `version` than the one given. Raises `StoreError`.
        """

    async def give_up(self, job_id: int, problem: Problem) -> Job | None:
        """End a job that never started as failed: what it waited for cannot be had; idempotent.

        It counts no longer against its owner's hour. Returns the job as it is afterwards (running,
        if it was faster), None if unknown. Raises `StoreError`.
        """


class QueueStatus(Protocol):
    """Answers where jobs, models, servers and hosts stand, and tells when that is known."""

    async def standings(self, jobs: Sequence[Job]) -> Mapping[int, Standing]:
        """Return where each job stands, by job id; all of one moment. Raises `StoreError`."""

    async def decided(self, jobs: Sequence[Job]) -> None:
        """Wait until each of these new jobs is running or waits for a reason, for a moment at most."""

    def snapshot(self) -> StatusReport:
        """Return where models, servers and hosts stand, from memory; never waits."""


class ModelReader(Protocol):
    """Answers what can be requested, and what the servers of a model have."""

    @property
    def offer(self) -> Offer:
        """What can be requested now, from memory: a copy that is replaced when it changes."""

    async def loras(self, model: str) -> tuple[str, ...]:
        """Return the LoRAs of a model's first server that can be reached.

        Raises `UnknownModel`, and `BackendError` when none can be.
        """

    async def is_at_hand(self, model: str, *, beside: str, within_s: float) -> bool:
        """Return whether a model could answer now on behalf of a job of `beside`.

        It can if it is in memory, or fits without evicting anything and without delaying another
        load by more than `within_s`. False for an unknown name.
        """


class Deliveries(Protocol):
    """Lists the jobs whose end people have not seen, until it is acknowledged.

    Events are hints: any that were missed, by a restart or a lost connection, are found here.
    """

    async def unacknowledged(self, owner: str | None = None) -> list[Job]:
        """Return the jobs that are open, or ended and not yet acknowledged, oldest first.

        `owner` restricts it to that person's jobs.
        """

    async def to_tell(self, after: int, limit: int) -> list[Job]:
        """Return at most `limit` waiting jobs whose number is above `after`, oldest first.

        With 0, those that run and those that ended and are not yet acknowledged come before them,
        however many there are.
        """

    async def acknowledge(self, job: Job) -> None:
        """Note that the person has the job's end: it is not listed again. Idempotent."""


class QueueEvents(Protocol):
    """Notifies listeners of changes and progress."""

    def subscribe(self, listener: Listener) -> None:
        """Call the listener with every event from now on.

        A change is durable before it is announced; the changes of one job are announced in the
        order in which they happened. Earlier events are not repeated: `Deliveries` has them.
        """

    def reading(self, job_id: int) -> AbstractContextManager[None]:
        """Have all that a job reports told until the block ends.

        Of a chat's jobs, a process that does not hold the chat is told only how far they are.
        """


class QueueAdmin(Protocol):
    """Pauses and queues. Every change is durable before it takes effect.

    Every call raises `Refused` when it names something that does not exist, and `StoreError`.
    """

    async def pause(self, *, model: str | None = None, host: str | None = None) -> Pauses:
        """Start and load nothing more of a model, on a host, or (with neither) at all.

        Running work continues to its end, waiting jobs keep their place. Returns everything that is
        paused then. Idempotent.
        """

    async def resume(self, *, model: str | None = None, host: str | None = None) -> Pauses:
        """Lift the pause of a model or a host, or (with neither) every pause.

        A model's own pause is lifted even while everything is paused; it stays stopped then.
        Returns what is still paused. Idempotent.
        """

    async def drain(self, host: str) -> None:
        """Pause a host, wait until its running work has ended, and unload every copy.

        Its memory is free then, as far as its servers report; `resume` takes it back. Raises
        `Refused` when it was resumed meanwhile, `Unavailable` when a server does not answer or
        cannot unload; the host stays paused then.
        """

    async def clear(self, model: str) -> list[Job]:
        """Cancel every waiting job of a model, and return them, oldest first."""

    async def move_first(self, job_id: int) -> Job | None:
        """Give a waiting job the first place of its queue; None when it does not wait.

        Its lane is kept, and the positions of the jobs it passes rise by one. Idempotent.
        """


class ModelPreloads(Protocol):
    """What is kept in memory at an admin's request. Every call raises `Refused`.

    The problem of an error is what the admin is shown.
    """

    async def preload(self, model: str, host: str | None) -> str:
        """Load a model and pin it; return the backend it is on once it is loaded.

        Idempotent: a copy already there is pinned. Raises `BackendError` when its load failed.
        """

    async def waits_for(self, model: str, host: str | None) -> Reason | None:
        """Return what would keep a preload from beginning now; None if nothing would.

        Raises `StoreError`.
        """

    async def unload(self, model: str, host: str | None) -> Sequence[str]:
        """Unpin a model and unload its copies: busy ones as soon as they are idle, others at once.

        Those that are being loaded leave as soon as that is done.

        Returns the backends it leaves; idle copies have left by then.
        """


class JobEraser(Protocol):
    """Deletes jobs."""

    async def forget(self, owner: str, job_ids: frozenset[int] | None = None) -> int:
        """Cancel and really delete a person's jobs, or only those named; return how many.

        Rows, requests, inputs, outputs and all references to a job are removed from the database
        and its log, their bytes overwritten; jobs made for one of them are deleted too. Not reached
        are earlier backups, what the file system or disk keeps of overwritten blocks, what an
        image or text server has stored itself, and the learned times, which name no person.
        Raises `StoreError`; calling again then deletes the rest.
        """
