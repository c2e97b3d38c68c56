"""Reading jobs: what was accepted, from whom, with what, and its outcome."""

from collections.abc import Mapping
from typing import Protocol

from queueing.core.jobs import Job, JobState
from queueing.core.requests import File, Output, Result, ResultFile
from queueing.core.status import GpuTime


class OutputReader(Protocol):
    """Reads what jobs produced."""

    async def output(self, job: Job) -> Output | None:
        """Return what a completed job produced; None after retention removed it."""


class OpenJobReader(Protocol):
    """Reads the jobs that have not ended."""

    async def open_jobs(self, owner: str | None = None) -> list[Job]:
        """Return the open jobs of an owner, or of all owners, oldest first."""


class JobFiles(OutputReader, Protocol):
    """Reads what jobs were accepted with, too.

    Both may be large: every process reads them from the database that it has open, whoever holds
    the queue.
    """

    async def inputs(self, job: Job) -> tuple[File, ...] | None:
        """Return the files the job was accepted with; None after retention removed them."""


class JobReader(JobFiles, OpenJobReader, Protocol):
    """Reads jobs by number, key or owner, and what people took of the cards in the last two days.

    Every call raises `StoreError` when the database fails.
    """

    async def get(self, job_id: int) -> Job | None:
        """Return a job, or None."""

    async def find(self, key: str) -> Job | None:
        """Return the job accepted under an idempotency key, or None."""

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
        """Return how many seconds of the cards each owner's jobs took since a moment."""

    async def gpu_time(self, owner: str, since: float) -> GpuTime:
        """Return what an owner's jobs took of the cards since a moment, and what is held.

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
