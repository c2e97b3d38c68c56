"""Submitting: how a request becomes a job, changes, and ends early."""

from collections.abc import Sequence
from typing import Protocol

from queueing.core.jobs import Admission, Job, NewJob
from queueing.core.problems import Problem
from queueing.core.requests import File, Request


class JobSubmitter(Protocol):
    """Accepts, changes and cancels jobs; every change is durable when the call returns."""

    async def submit(self, new: NewJob, *, limits: Admission) -> Job:
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
