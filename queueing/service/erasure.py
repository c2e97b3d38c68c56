"""Erasure: really deletes a person's requests and results."""

import logging

from queueing.core.events import Erased, Forgotten
from queueing.core.jobs import Job
from queueing.engine.event_bus import EventBus
from queueing.service.job_submitter import Intake
from queueing.store.jobs.job_store import JobStore

log = logging.getLogger(__name__)

_PAGE = 200


class Erasure:
    """Ends and deletes jobs; keeps nothing of them."""

    def __init__(
        self,
        *,
        jobs: JobStore,
        intake: Intake,
        bus: EventBus,
    ) -> None:
        self._jobs = jobs
        self._intake = intake
        self._bus = bus

    async def forget(self, owner: str, job_ids: frozenset[int] | None = None) -> int:
        """Cancel and delete a person's jobs, or only those named; return how many went.

        Jobs made for one of them, such as its enhancement, go with it. Raises `StoreError`; then,
        and after a crash in between, asking again deletes the rest.
        """
        jobs = await self._all_of(owner)
        chosen = [
            job for job in jobs if job_ids is None or job.id in job_ids or job.parent in job_ids
        ]
        for job in (
            chosen
        ):  # the newest first, so that no overflow job enters the line only to be cancelled
            if not job.state.final:
                await self._intake.cancel(job.id)
        ids = [job.id for job in chosen]
        # Announced before the rows are deleted: a listener still showing one would find it
        # missing.
        self._bus.publish(Forgotten(job_ids=frozenset(ids)))
        erased = await self._jobs.erase(ids)
        self._bus.publish(Erased(job_ids=frozenset(ids)))
        log.info("jobs deleted for good at their owner's request: %d", erased)
        return erased

    async def _all_of(self, owner: str) -> list[Job]:
        jobs: list[Job] = []
        while True:
            before = jobs[-1].id if jobs else None
            page = await self._jobs.history(owner, limit=_PAGE, before=before, made_for_jobs=True)
            jobs += page
            if len(page) < _PAGE:
                return jobs
