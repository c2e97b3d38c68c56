"""JobStore: the durable store of jobs, with their state changes and queues.

It decides which statement runs when. The database owns the transactions, `JobWriter` writes the
rows, and `PositionIndex` keeps the positions.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle, islice

from queueing.core.errors import NotAccepting, StaleJob
from queueing.core.events import JobChanged
from queueing.core.jobs import Job, JobEvent, NewJob, StartOrder, SubmitLimits
from queueing.core.requests import File, Output, Request
from queueing.core.snapshot import QueueHead
from queueing.store.jobs import queries
from queueing.store.jobs.fleet_records import FleetRecords
from queueing.store.jobs.job_reader import StoredJobReader
from queueing.store.jobs.job_writer import Change, JobWriter, Replacement, Submission, load_places
from queueing.store.jobs.positions import PositionIndex
from queueing.store.jobs.queue_heads import QueueHeads, turns
from queueing.store.jobs.rows import changed
from queueing.store.sql.batcher import ChangeKind, Item, Result
from queueing.store.sql.database import Connection, Database, DatabaseAway, DiskFull

_LOOKS = 3  # a queue may change during a read; a slightly outdated view is good enough
_MB = 1024 * 1024
_LOOKED_AT_ONCE = 200


class JobStore(StoredJobReader, FleetRecords):
    """The durable record of all jobs of a database. Create only one per database.

    Every method returns once its change is durable. All methods may be called concurrently and
    cancelled; a cancelled change happens entirely or not at all. All raise `StoreError` if the
    database fails.
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
        """Load the places of all waiting jobs, so that the first caller does not wait for it."""
        await self._load()

    # ------------------------------------------------------------ changes

    async def add(self, new: NewJob, now: float, *, limits: SubmitLimits) -> Job:
        """Accept a job. Its place, limits and idempotency key are handled in one transaction.

        If the key is known, returns the job it created earlier, regardless of limits. Raises
        `LimitReached`. Raises `NotAccepting` if the disk is full, the server is away, or the
        database is known to be damaged: a restored backup would not contain the job.
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
        """Change a job's state as `TRANSITIONS` allows and return the change.

        `runner` and `backend` stay as they are if not given; `not_before` and `suspect` apply to
        RETRY and RELEASE. A job that fails, or ends with `gives_back`, stops counting against its
        owner's hourly quota. `gpu_s` is the GPU time of a job that ends, which is added to its
        owner's usage. When a job ends, its owner's oldest overflow job enters the end of its queue.

        This is a compare-and-set on id, version and source state. Raises `StaleJob` if another
        change came first.
        """
        if self._places is None:
            await self._load()
        if event is JobEvent.START and job.seq is None:
            raise StaleJob(f"job {job.id} has no place in its queue yet")
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
        """Move a waiting job to the front of its queue and return its new state.

        It keeps its lane, and the jobs it passes move back by one. A job in its owner's overflow
        enters the queue this way. Returns None if the job does not exist or is not waiting.
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
        """Replace the request of a job that has never started, and return its new state.

        `files` are added to the job's inputs, and `reply_to` replaces the old one. The job keeps
        its place. With `release`, its delay ends and it may start at once. Returns None if the job
        does not exist, has started or ended, or does not have the given `version`.
        """
        if self._places is None:
            await self._load()
        given = Replacement(job_id, request, tuple(files), reply_to, release, version)
        return await self._submit(self._amending, given)

    # ------------------------------------------------------------ queues

    async def queues(self, now: float, *, per_queue: int) -> list[QueueHead]:
        """Return every queue that has waiting jobs, reading only those that changed.

        A queue that changes during the read is read again, so that no job is shown as waiting that
        started before the call. The compare-and-set in `apply` covers the remaining races.
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
        """Return each job's position: 1 + the jobs ahead in its model and lane. In memory.

        For an overflow job, the whole queue and its owner's earlier overflow count as ahead. Jobs
        that are not waiting are omitted. Takes microseconds per job, however long the queue.
        """
        places = self._places or await self._load()
        found = ((job_id, places.position(job_id)) for job_id in job_ids)
        return {job_id: position for job_id, position in found if position is not None}

    async def turns(
        self, job_ids: Sequence[int], *, begun: Collection[int]
    ) -> Mapping[int, StartOrder]:
        """Return the start order of waiting jobs that have a place, as the queues were last read.

        Jobs in `begun`, whose start is being stored, count as started. Takes microseconds per job,
        however long the queue.
        """
        places = self._places or await self._load()
        return turns(places, self._heads, job_ids, begun)

    # ------------------------------------------------------------ deletion

    async def purge(self, before: float, *, keep_mb: int | None = None) -> int:
        """Delete acknowledged jobs that ended before `before`, with their files.

        With `keep_mb`, also deletes the oldest outputs and inputs beyond that total size. Deleted
        data is overwritten. Returns the number of jobs deleted.
        """
        deleted = dropped = 0
        while some := await self._database.write(
            lambda connection: _purge_some(connection, before)
        ):
            deleted += some
        if keep_mb is not None:
            while some := await self._database.write(lambda c: _drop_some_bytes(c, keep_mb)):
                dropped += some
        if deleted or dropped:
            await self._database.write_and_scrub(lambda _connection: None)
        return deleted

    async def erase(self, job_ids: Sequence[int]) -> int:
        """Delete those of the given jobs that have ended, with their files.

        Ended jobs whose `parent` is one of them are deleted too, but not counted. The data is
        overwritten in the store's files before this returns, as far as the file system writes in
        place; earlier backups keep it. Returns the number deleted.
        """
        erased = 0
        for some in _portions(job_ids):
            erased += await self._database.write(partial(_erase, job_ids=some))
        await self._database.write_and_scrub(lambda _connection: None)
        return erased

    async def aclose(self) -> None:
        """Finish pending writes and close the database. Idempotent."""
        await self._database.aclose()

    # ------------------------------------------------------------ following the commits

    async def _load(self) -> PositionIndex:
        async with self._loading:  # completes before any change, so none is missed
            if self._places is None:
                self._places = await self._database.write(load_places)
        return self._places

    def _follow(self) -> None:
        if self._places is not None:
            for move in self._writer.moves:
                self._places.move(move)
        self._writer.moves.clear()


def _purge_some(connection: Connection, before: float) -> int:
    """Delete some acknowledged jobs, oldest end first. Returns how many."""
    return connection.execute(queries.PURGE, (before, queries.DELETED_AT_ONCE)).rowcount


def _drop_some_bytes(connection: Connection, keep_mb: int) -> int:
    """Delete the files and texts of some acknowledged jobs beyond a size. Returns how many jobs.

    Jobs that are open or not delivered keep their files at any size.
    """
    kept, beyond = 0, []
    for job_id, size in connection.execute(queries.BYTES_NEWEST_FIRST).fetchall():
        kept += size
        if kept > keep_mb * _MB:
            beyond.append((job_id,))
    for at in range(0, len(beyond), _LOOKED_AT_ONCE):
        some = beyond[at : at + _LOOKED_AT_ONCE]
        found = connection.selectmany(queries.DROPPABLE, some)
        droppable = [key for key, rows in zip(some, found, strict=True) if rows]
        if droppable:
            droppable = droppable[: queries.DELETED_AT_ONCE]
            emptied = [(b"", *key) for key in droppable]
            connection.executemany(queries.DROP_INPUTS, emptied)
            connection.executemany(queries.DROP_OUTPUTS, droppable)
            return len(droppable)
    return 0


def _erase(connection: Connection, job_ids: Sequence[int]) -> int:
    """Delete the ended jobs of one portion, with everything that belongs to them.

    Jobs made for them are deleted too, such as a question that contains a transcript. Only jobs in
    `job_ids` are counted.
    """
    erasing = [connection.execute(queries.ERASE, (job_id,)) for job_id in job_ids]
    erased = sum(cursor.rowcount for cursor in erasing)
    # The statement has a fixed number of parameters.
    filled = islice(cycle(job_ids), queries.DELETED_AT_ONCE)
    connection.execute(queries.ERASE_MADE_FOR, tuple(filled))
    return erased


def _portions(job_ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Split jobs into portions for one transaction each."""
    size = queries.DELETED_AT_ONCE
    return (job_ids[at : at + size] for at in range(0, len(job_ids), size))
