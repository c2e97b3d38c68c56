"""JobStore: the store of jobs in a database; here are the changes and the queues.

Decides which statement runs when; the transactions are the database's, what each writes is `JobWriter`'s,
the positions are `PositionIndex`'.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from queueing.core.errors import NotAccepting, StaleJob
from queueing.core.events import JobChanged
from queueing.core.jobs import Job, JobEvent, NewJob, StartOrder, SubmitLimits
from queueing.core.requests import File, Output, Request
from queueing.core.snapshot import QueueHead
from queueing.store.jobs.batch_reading import load_places
from queueing.store.jobs.fleet_records import FleetRecords
from queueing.store.jobs.job_reader import StoredJobReader
from queueing.store.jobs.job_writer import Change, JobWriter, Replacement, Submission
from queueing.store.jobs.positions import PositionIndex
from queueing.store.jobs.queue_heads import QueueHeads, turns
from queueing.store.jobs.retention import StoredUpkeep
from queueing.store.jobs.rows import changed
from queueing.store.sql.batcher import ChangeKind, Item, Result
from queueing.store.sql.database import Connection, Database, DatabaseAway, DiskFull

_LOOKS = (
    3  # a queue may change while it is read; under a flood, being one look behind is good enough
)


class JobStore(StoredJobReader, FleetRecords, StoredUpkeep):
    """The durable record of all jobs of a database; at most one for each.

    Every method returns after its change is durable; all are safe to call concurrently and to
    cancel: the change then happens whole or not at all. All raise `StoreError` when the database
    fails.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._submit = database.submit
        self._writer = JobWriter(database.is_short_of_disk, numbers_used=database.numbers_used)
        self._places: PositionIndex | None = None
        self._loading = asyncio.Lock()
        self._heads = QueueHeads()
        self._accepting = self._kind(self._writer.accept)
        self._changing = self._kind(self._writer.change)
        self._moving = self._kind(self._writer.move_first)
        self._amending = self._kind(self._writer.replace_request)

    def _kind(
        self, run: Callable[[Connection, Sequence[Item]], Sequence[Result | Exception]]
    ) -> ChangeKind[Item, Result]:
        return ChangeKind(
            run=run,
            after=self._writer.settle,
            committed=self._follow,
            undone=self._writer.forget,
        )

    async def prepare(self) -> None:
        """Read the places of all waiting jobs now, so that the first caller need not wait for it."""
        await self._load()

    # ------------------------------------------------------------ changes

    async def add(self, new: NewJob, now: float, *, limits: SubmitLimits) -> Job:
        """Accept a job: place, limits and idempotency key in one transaction.

        A known key returns the job it made before, whatever the limits. Raises `LimitReached`, and
        `NotAccepting` when the disk is full, or the file is known to be damaged: the job would be
        lost with it.
        """
        if self._database.damage is not None:
            raise NotAccepting(self._database.damage)
        if self._places is None:
            await self._load()
        request = new.request.model_dump_json(exclude_none=True)
        try:
            return await self._submit(self._accepting, Submission(new, request, now, limits))
        except DiskFull as error:
            raise NotAccepting(str(error), full_disk=True) from error
        except DatabaseAway as error:
            raise NotAccepting(str(error)) from error

    async def apply(
        self,
        job: Job,
        event: JobEvent,
        now: float,
        *,
        runner: str | None = None,
        backend: str | None = None,
        not_before: float = 0.0,
        error: str | None = None,
        output: Output | None = None,
        suspect: bool = False,
        gives_back: bool = False,
        gpu_s: float = 0.0,
    ) -> JobChanged:
        """Change a job's state as `TRANSITIONS` says and return what has happened.

        `runner` and `backend` are kept where none is given; `not_before` and `suspect` count with
        RETRY and RELEASE. A job that fails counts no longer against its owner's hour, nor does one
        with `gives_back`. `gpu_s` is what one that ends took of a GPU; its owner's use grows by
        it. A job that ends lets its owner's oldest overflow job enter its queue at the end.

        Compare-and-set on id, version and source state: raises `StaleJob` when another change was
        faster.
        """
        if self._places is None:
            await self._load()
        if event is JobEvent.START and job.seq is None:
            raise StaleJob(f"job {job.id} has no place in line yet")
        after = changed(
            job,
            event,
            now,
            backend=backend,
            not_before=not_before,
            error=error,
            suspect=suspect,
        )
        gives_back = gives_back or event is JobEvent.FAIL
        change = Change(event, job, after, runner, output, gives_back, gpu_s)
        return await self._submit(self._changing, change)

    async def move_first(self, job_id: int) -> Job | None:
        """Move a waiting job to the first place of its queue and return it as it is now.

        Its lane is kept, and the positions of the jobs it passes rise by one. A job in its owner's
        overflow enters the queue this way. Returns None when there is no such job, or it no longer
        waits.
        """
        if self._places is None:
            await self._load()
        return await self._submit(self._moving, job_id)

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
        """Replace the request of a job that never started, let it start at once and return it.

        `files` are added to its inputs; `reply_to` replaces its own. It keeps its place; its delay,
        if any, ends, unless it is not to be released. Returns None when it has started or ended,
        does not exist, or has another `version` than the one given.
        """
        if self._places is None:
            await self._load()
        given = Replacement(job_id, request, tuple(files), reply_to, release, version)
        return await self._submit(self._amending, given)

    # ------------------------------------------------------------ queues

    async def queues(self, now: float, *, per_queue: int) -> list[QueueHead]:
        """Return every queue that has waiting jobs; reads only those that changed, at any depth.

        A queue that changes while it is read is read again, so that no job is shown as waiting that
        started before the call; the compare-and-set of `apply` guards the rest.
        """
        places = self._places or await self._load()
        for _ in range(_LOOKS):
            stale = self._heads.stale(places, now, per_queue)
            if not stale:
                break
            await self._database.read(
                partial(self._heads.read, stale=stale, now=now, per_queue=per_queue)
            )
        return self._heads.queues(places)

    async def positions(self, job_ids: Sequence[int]) -> Mapping[int, int]:
        """Return 1 + the number of jobs waiting ahead in the same model and lane, from memory.

        Overflow jobs count the whole queue and their owner's earlier overflow as ahead. Jobs that no
        longer wait are left out. Microseconds each, at any depth.
        """
        places = self._places or await self._load()
        found = ((job_id, places.position(job_id)) for job_id in job_ids)
        return {job_id: position for job_id, position in found if position is not None}

    async def turns(
        self, job_ids: Sequence[int], *, begun: Collection[int]
    ) -> Mapping[int, StartOrder]:
        """Return where waiting jobs with a place stand, as the queues were last read.

        `begun` are those whose start is being stored: they count as started. Microseconds each, at
        any depth.
        """
        places = self._places or await self._load()
        return turns(places, self._heads, job_ids, begun)

    async def aclose(self) -> None:
        """Flush and close the database. Idempotent."""
        await self._database.aclose()

    # ------------------------------------------------------------ following the commits

    async def _load(self) -> PositionIndex:
        async with self._loading:  # before the first change, so nothing is missed
            if self._places is None:
                self._places = await self._database.write(load_places)
        return self._places

    def _follow(self) -> None:
        if self._places is not None:
            for move in self._writer.moves:
                self._places.move(move)
        self._writer.moves.clear()
