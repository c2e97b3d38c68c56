"""Erasure: really deletes what a person asked for and got."""

import logging
from collections.abc import Awaitable, Callable

from queueing.core.events import Erased, Forgotten
from queueing.core.jobs import Job
from queueing.core.ports import Store

log = logging.getLogger(__name__)

_PAGE = 200


class Erasure:
    """Ends and deletes jobs; keeps nothing of them."""

    def __init__(
        self,
        *,
        store: Store,
        cancel: Callable[[int], Awaitable[Job | None]],
        publish: Callable[[Forgotten | Erased], None],
    ) -> None:
        self._store = store
        self._cancel = cancel
        self._publish = publish

    async def forget(self, owner: str, that: Callable[[Job], bool]) -> int:
        """Cancel and delete those of a person's jobs that `that` picks; return how many went.

        Jobs made for one of them, such as its enhancement, go with it. Raises `StoreError`; then,
        and after a crash in between, asking again deletes the rest.
        """
        jobs = await self._all_of(owner)
        picked = {job.id for job in jobs if that(job)}
        chosen = [job for job in jobs if job.id in picked or job.parent in picked]
        for job in chosen:  # the newest first: no job of the overflow is let in to be cancelled
            if not job.state.final:
                await self._cancel(job.id)
        ids = [job.id for job in chosen]
        # Told before the rows go: who still showed one of them would stumble over its absence.
        self._publish(Forgotten(job_ids=frozenset(ids)))
        erased = await self._store.erase(ids)
        self._publish(Erased(job_ids=frozenset(ids)))
        log.info("%d jobs are deleted for good on their owner's wish", erased)
        return erased

    async def _all_of(self, owner: str) -> list[Job]:
        jobs: list[Job] = []
        while True:
            before = jobs[-1].id if jobs else None
            page = await self._store.history(owner, limit=_PAGE, before=before)
            jobs += page
            if len(page) < _PAGE:
                return jobs
