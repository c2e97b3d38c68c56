"""Reading jobs: what was accepted, from whom, with what, and its outcome."""

from collections.abc import Mapping
from typing import Protocol

from queueing.core.jobs import Job, JobState
from queueing.core.requests import File, Output
from queueing.core.storage import GpuTime


class OutputReader(Protocol):
    """Reads what jobs produced."""

    async def output(self, job: Job) -> Output | None:
        """Return what a completed job produced, None after retention removed it.

        Raises `StoreError`.
        """


class OpenJobReader(Protocol):
    """Reads the jobs that have not ended."""

    async def open_jobs(self, owner: str | None = None) -> list[Job]:
        """Return the open jobs of an owner, or of all owners, oldest first. Raises `StoreError`."""


class JobReader(OutputReader, OpenJobReader, Protocol):
    """Reads stored jobs. Every call raises `StoreError` when the database fails."""

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

        `before` is the id of a job: only older ones are returned. Jobs made for another job, such
        as enhancements, and bulk are left out unless `made_for_jobs`.
        With `states`, only jobs in one of them are returned.
        """

    async def gpu_time(self, owner: str, since: float) -> GpuTime:
        """Return what an owner's jobs took of the cards since a moment, and what is held.

        The last two days are known. A job counts from its end; a failed one never does.
        """

    async def gpu_used(self, since: float) -> Mapping[str, float]:
        """Return how many seconds of the cards each owner's jobs took since a moment."""

    async def inputs(self, job: Job) -> tuple[File, ...] | None:
        """Return the files the job was accepted with; None after retention removed them."""
