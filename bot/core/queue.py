"""The queue's interface for the bot, one port for each thing it does."""

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
    """Reads the inputs and outputs of jobs.

    Both may be large, so every process reads them from its own database connection, whichever
    process runs the queue.
    """

    async def inputs(self, job: Job) -> tuple[File, ...] | None:
        """Return the job's input files; None after retention removed them."""

    async def output(self, job: Job) -> Output | None:
        """Return a completed job's output; None after retention removed it."""


class JobReader(JobFiles, Protocol):
    """Reads jobs by number, key or owner, and the GPU time people used in the last two days.

    Every call raises `StoreError` if the database fails.
    """

    async def get(self, job_id: int) -> Job | None:
        """Return a job, or None."""

    async def find(self, key: str) -> Job | None:
        """Return the job accepted under an idempotency key, or None."""

    async def open_jobs(self, owner: str | None = None) -> list[Job]:
        """Return the open jobs of an owner, or of all owners, oldest first."""

    async def held_jobs(self) -> list[Job]:
        """Return the jobs that start only after their request is replaced, oldest first."""

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

        With `before`, only jobs older than that id. Jobs made for other jobs, such as enhancements,
        and bulk jobs are left out unless `made_for_jobs`. With `states`, only jobs in one of them.
        """

    async def gpu_used(self, since: float) -> Mapping[str, float]:
        """Return the GPU seconds that each owner's jobs have used since a moment."""

    async def gpu_time(self, owner: str, since: float) -> GpuTime:
        """Return an owner's GPU time since a moment, including the time reserved for open jobs.

        A job counts from its end; a failed job never counts.
        """


class ResultFiles(Protocol):
    """The files of all results, by job and number (counted from 1)."""

    async def result(self, job_id: int) -> Result | None:
        """Return a job's result; None if there is none or it was removed."""

    async def head(self, job_id: int, number: int) -> ResultFile | None:
        """Return a file's properties; None if the file does not exist or was removed."""

    async def piece(self, job_id: int, number: int, start: int, length: int) -> bytes | None:
        """Return up to `length` bytes from `start`; None if the file is missing or was removed."""


class JobSubmitter(Protocol):
    """Accepts, changes and cancels jobs. Every change is durable when the call returns."""

    async def submit(self, new: NewJob, *, limits: SubmitLimits) -> Job:
        """Accept a job. Raises `Refused` and `StoreError`.

        A known `key` returns the job it created before and changes nothing, whatever the limits, so
        a call with an unknown outcome can be repeated. The model may be given by an alias.
        """

    async def cancel(self, job_id: int) -> Job | None:
        """Cancel a job at a person's request and stop its work on the server. Idempotent.

        Returns the job as it is afterwards (perhaps completed, if that was faster), None if
        unknown. Raises `StoreError`.
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
        """Replace the request of a job that has never started, and let it start at once.

        `files` are added to its inputs; `reply_to` replaces its own. The job keeps its place. Its
        delay ends unless `release` is False. Returns the changed job; None if it has started or
        ended, or if its version is not `version`. Raises `StoreError`.
        """

    async def give_up(self, job_id: int, problem: Problem) -> Job | None:
        """Fail a job that has never started, because what it waits for is unavailable.

        Idempotent.

        The job no longer counts against its owner's hourly quota. Returns the job as it is
        afterwards (running, if that was faster), None if unknown. Raises `StoreError`.
        """


class QueueStatus(Protocol):
    """Reports the state of jobs, models, servers and hosts."""

    async def standings(self, jobs: Sequence[Job]) -> Mapping[int, Standing]:
        """Return each job's standing by job id, all from one moment. Raises `StoreError`."""

    async def decided(self, jobs: Sequence[Job]) -> None:
        """Wait briefly until each of these new jobs is running or has a reason to wait."""

    def snapshot(self) -> StatusReport:
        """Return the state of models, servers and hosts. Answers from memory and never waits."""


class ModelReader(Protocol):
    """Reports what can be requested, and which LoRAs a model's servers have."""

    @property
    def offer(self) -> Offer:
        """What can be requested now. A copy in memory, replaced when it changes."""

    async def loras(self, model: str) -> tuple[str, ...]:
        """Return the LoRAs on a model's first reachable server.

        Raises `UnknownModel`, and `BackendError` if no server is reachable.
        """

    async def is_at_hand(self, model: str, *, beside: str, within_s: float) -> bool:
        """Return whether a model could answer now on behalf of a job of the model `beside`.

        It could if it is in memory, or if it fits without evicting anything and without delaying
        another load by more than `within_s`. False for an unknown name.
        """


class Deliveries(Protocol):
    """Lists open jobs, and ended jobs until their person is known to have seen the end.

    Events are only hints. This list covers those missed because of a restart or a lost connection.
    """

    async def unacknowledged(self, owner: str | None = None) -> list[Job]:
        """Return the jobs that are open, or ended and not acknowledged, oldest first.

        With `owner`, only that person's jobs.
        """

    async def to_tell(self, after: int, limit: int) -> list[Job]:
        """Return at most `limit` waiting jobs with ids above `after`, oldest first.

        With `after=0`, all running jobs and all ended, unacknowledged jobs come first, without a
        limit.
        """

    async def acknowledge(self, job: Job) -> None:
        """Record that the person has received the job's end, so that it is not listed again.

        Idempotent.
        """


class QueueEvents(Protocol):
    """Notifies listeners of changes and progress."""

    def subscribe(self, listener: Listener) -> None:
        """Call the listener with every later event.

        A change is durable before it is announced. The changes of one job are announced in order.
        Earlier events are not repeated: `Deliveries` lists those jobs.
        """

    def reading(self, job_id: int) -> AbstractContextManager[None]:
        """Receive all reports of a job until the block ends.

        Otherwise, a process that does not hold a job's chat receives only the job's progress.
        """


class QueueAdmin(Protocol):
    """Pauses hosts and models, and changes queues.

    Every change is durable before it takes effect.

    Every call raises `Refused` if it names something that does not exist, and `StoreError`.
    """

    async def pause(self, *, model: str | None = None, host: str | None = None) -> Pauses:
        """Stop starting jobs and loads: of a model, on a host, or (with neither) everywhere.

        Running work continues to its end; waiting jobs keep their place. Returns everything that is
        then paused. Idempotent.
        """

    async def resume(self, *, model: str | None = None, host: str | None = None) -> Pauses:
        """Lift the pause of a model or a host, or (with neither) every pause.

        A model's own pause can be lifted while everything is paused; the model still does not
        start. Returns what is still paused. Idempotent.
        """

    async def drain(self, host: str) -> None:
        """Pause a host, wait until its running work has ended, and unload every copy.

        Its memory is then free, as far as its servers report. `resume` puts the host back to work.
        Raises `Refused` if the host is resumed during the drain, and `Unavailable` if a server does
        not answer or cannot unload; the host then stays paused.
        """

    async def clear(self, model: str) -> list[Job]:
        """Cancel every waiting job of a model and return them, oldest first."""

    async def move_first(self, job_id: int) -> Job | None:
        """Move a waiting job to the front of its queue; None if it is not waiting.

        The job keeps its lane, and the jobs it passes move back by one. Idempotent.
        """


class ModelPreloads(Protocol):
    """Keeps models in memory at an admin's request. Every call raises `Refused`.

    Admins see the problem of every error raised here.
    """

    async def preload(self, model: str, host: str | None) -> str:
        """Load a model and pin it. Returns its backend once it is loaded.

        Idempotent: an existing copy is pinned. Raises `BackendError` if the load failed.
        """

    async def waits_for(self, model: str, host: str | None) -> Reason | None:
        """Return what would prevent a preload from starting now; None if nothing would.

        Raises `StoreError`.
        """

    async def unload(self, model: str, host: str | None) -> Sequence[str]:
        """Unpin a model and unload its copies: idle ones at once, busy ones when they become idle.

        Copies that are still loading leave when their load is complete. Returns the backends the
        model leaves; when it returns, idle copies have left.
        """


class JobEraser(Protocol):
    """Deletes jobs permanently."""

    async def forget(self, owner: str, job_ids: frozenset[int] | None = None) -> int:
        """Cancel and permanently delete a person's jobs, or only those named; return how many.

        Rows, requests, inputs, outputs and all references to a job are removed from the database
        and its log, and their bytes are overwritten. Jobs made for one of them are deleted too.
        Earlier backups remain, as do overwritten blocks that the file system or disk keeps, data
        that an image or text server has stored itself, and the learned times, which name no person.
        Raises `StoreError`; calling again then deletes the rest.
        """
