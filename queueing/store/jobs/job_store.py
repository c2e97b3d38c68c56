"""JobStore: the store of jobs in a database.

Decides which statement runs when; the transactions are the database's, the counting is `AdmissionCounters`',
the positions are `PositionIndex`'.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from queueing.core.errors import NotAccepting, StaleJob
from queueing.core.events import JobChanged
from queueing.core.jobs import Job, JobEvent, NewJob
from queueing.core.paused import Paused
from queueing.core.ports import Admission, Learned, Line, StartOrder
from queueing.core.requests import Chat, File, Output, TextToImage
from queueing.store.database import ChangeKind, Connection, Database, DiskFull
from queueing.store.jobs import queries
from queueing.store.jobs import runtime_state as notes
from queueing.store.jobs.changes import (
    AdmissionCounters,
    Amendment,
    Change,
    Submission,
    load_places,
)
from queueing.store.jobs.head_cache import HeadCache
from queueing.store.jobs.position_index import PositionIndex
from queueing.store.jobs.positions import turns
from queueing.store.jobs.retention import drop_some_bytes, erase, portions, purge_some
from queueing.store.jobs.rows import (
    changed,
    files_from,
    job_from,
    jobs_of,
    output_from,
)

_LOOKS = 3  # a line may change while it is read; under a flood, one look behind is good enough


class JobStore:
    """`ports.Store` on a database; at most one for each."""

    def __init__(self, database: Database) -> None:
        self.database_id = database.id
        self._database = database
        self._submit = database.submit
        self._books = AdmissionCounters(database.is_short_of_disk)
        self._places: PositionIndex | None = None
        self._loading = asyncio.Lock()
        self._heads = HeadCache()
        self._accepting = ChangeKind(
            run=self._books.accept, committed=self._follow, undone=self._books.forget
        )
        self._changing = ChangeKind(
            run=self._books.change, committed=self._follow, undone=self._books.forget
        )
        self._moving = ChangeKind(
            run=self._books.move_first, committed=self._follow, undone=self._books.forget
        )
        self._amending = ChangeKind(
            run=self._books.amend, committed=self._follow, undone=self._books.forget
        )

    async def prepare(self) -> None:
        """Read the places of all waiting jobs now, so that the first to ask need not wait for it."""
        await self._load()

    # ------------------------------------------------------------ changes

    async def add(self, new: NewJob, now: float, *, limits: Admission) -> Job:
        """Accept a job: place, limits and idempotency key in one transaction.

        Nothing is accepted into a file that is known to be damaged: it would go with the file.
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
    ) -> JobChanged:
        """Change a job's state as `TRANSITIONS` says and return what has happened.

        `runner` and `backend` are kept where none is given; `not_before` and `suspect` count with
        RETRY and RELEASE. Raises `StaleJob`.
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
        change = Change(event, job, after, runner, output, gives_back)
        return await self._submit(self._changing, change)

    async def move_first(self, job_id: int) -> Job | None:
        """Give a waiting job a place before all others of its line."""
        if self._places is None:
            await self._load()
        return await self._submit(self._moving, job_id)

    async def amend(
        self,
        job_id: int,
        request: TextToImage | Chat,
        *,
        files: Sequence[File] = (),
        reply_to: str | None = None,
    ) -> Job | None:
        """Give a job that never started another request, and let it start at once."""
        if self._places is None:
            await self._load()
        return await self._submit(
            self._amending, Amendment(job_id, request, tuple(files), reply_to)
        )

    async def acknowledge(self, job: Job) -> None:
        """Note that the person has seen the job's end. Idempotent."""
        await self._database.write(
            lambda connection: connection.execute(queries.ACKNOWLEDGE, (job.id,))
        )

    async def purge(self, before: float, *, keep_mb: int | None = None) -> int:
        """Delete acknowledged ended jobs older than `before`, then bytes beyond `keep_mb`.

        What is deleted is overwritten. Returns how many jobs were deleted.
        """
        deleted = dropped = 0
        while some := await self._database.write(lambda connection: purge_some(connection, before)):
            deleted += some
        if keep_mb is not None:
            while some := await self._database.write(lambda c: drop_some_bytes(c, keep_mb)):
                dropped += some
        if deleted or dropped:
            await self._database.write_and_scrub(lambda _connection: None)
        return deleted

    async def erase(self, job_ids: Sequence[int]) -> int:
        """Delete ended jobs and whatever belongs to them, and overwrite their bytes."""
        erased = 0
        for some in portions(job_ids):
            erased += await self._database.write(partial(erase, job_ids=some))
        await self._database.write_and_scrub(lambda _connection: None)
        return erased

    # ------------------------------------------------------------ lines

    async def lines(self, now: float, *, per_line: int) -> list[Line]:
        """Return every line that has waiting jobs; reads only lines that changed.

        What changes while a line is read is read again, so that no job is shown as waiting that
        has started before the call; the compare-and-set of `apply` guards the rest.
        """
        places = self._places or await self._load()
        for _ in range(_LOOKS):
            stale = self._heads.stale(places, now, per_line)
            if not stale:
                break
            await self._database.read(
                partial(self._heads.read, stale=stale, now=now, per_line=per_line)
            )
        return self._heads.lines(places)

    async def positions(self, job_ids: Sequence[int]) -> Mapping[int, int]:
        """Return each waiting job's position, from memory."""
        places = self._places or await self._load()
        found = ((job_id, places.position(job_id)) for job_id in job_ids)
        return {job_id: position for job_id, position in found if position is not None}

    async def turns(
        self, job_ids: Sequence[int], *, begun: Collection[int]
    ) -> Mapping[int, StartOrder]:
        """Return where waiting jobs stand that have a place, from memory."""
        places = self._places or await self._load()
        return turns(places, self._heads, job_ids, begun)

    # ------------------------------------------------------------ reading

    async def get(self, job_id: int) -> Job | None:
        """Return a job, or None."""
        return await self._one(queries.JOB, job_id)

    async def find(self, key: str) -> Job | None:
        """Return the job accepted under an idempotency key, or None."""
        return await self._one(queries.JOB_BY_KEY, key)

    async def open_jobs(self, owner: str | None = None) -> list[Job]:
        """Return the open jobs of an owner, or of all owners, oldest first."""
        if owner is None:
            return await self._many(queries.OPEN_JOBS)
        return await self._many(queries.OPEN_JOBS_OF, owner)

    async def history(
        self, owner: str, *, limit: int, before: int | None = None, made_for_jobs: bool = False
    ) -> list[Job]:
        """Return an owner's jobs, open and ended, newest first."""
        last = before if before is not None else queries.AFTER_ALL
        query = queries.WHOLE_HISTORY if made_for_jobs else queries.HISTORY
        return await self._many(query, owner, last, limit)

    async def processing(self) -> list[Job]:
        """Return the jobs in state processing, oldest start first."""
        return await self._many(queries.PROCESSING)

    async def abandoned(self) -> list[Job]:
        """Return the jobs cancelled after a start and not yet acknowledged, oldest first."""
        return await self._many(queries.ABANDONED)

    async def unacknowledged(self, owner: str | None = None) -> list[Job]:
        """Return the jobs that are open, or ended and not yet acknowledged, oldest first."""

        def query(connection: Connection) -> list[Job]:
            found = jobs_of(connection, queries.UNDELIVERED)
            if owner is None:
                found += jobs_of(connection, queries.OPEN_JOBS)
            else:
                found = [job for job in found if job.owner == owner]
                found += jobs_of(connection, queries.OPEN_JOBS_OF, (owner,))
            return sorted(found, key=lambda job: job.id)

        return await self._database.read(query)

    async def to_tell(self, after: int, limit: int) -> list[Job]:
        """Return so many waiting jobs after a number, and before the first all others to report."""

        def query(connection: Connection) -> list[Job]:
            others = (queries.UNDELIVERED, queries.PROCESSING) if after == 0 else ()
            waiting = queries.waiting_among(connection.statements.open_after)
            first = [job for text in others for job in jobs_of(connection, text)]
            return first + jobs_of(connection, waiting, (after, limit))

        return await self._database.read(query)

    async def inputs(self, job: Job) -> tuple[File, ...]:
        """Return the files the job was accepted with."""
        return await self._database.read(
            lambda connection: files_from(connection.execute(queries.INPUTS, (job.id,)).fetchall())
        )

    async def output(self, job: Job) -> Output | None:
        """Return what a completed job produced; None after retention removed it."""
        return await self._database.read(
            lambda connection: output_from(
                connection.execute(queries.OUTPUTS, (job.id,)).fetchall()
            )
        )

    async def _one(self, query: str, parameter: int | str) -> Job | None:
        def first(connection: Connection) -> Job | None:
            row = connection.execute(query, (parameter,)).fetchone()
            return None if row is None else job_from(row)

        return await self._database.read(first)

    async def _many(self, query: str, *parameters: str | int) -> list[Job]:
        return await self._database.read(lambda connection: jobs_of(connection, query, parameters))

    # ------------------------------------------------------------ models, times and pauses

    async def paused(self) -> Paused:
        """Return what is paused."""
        return await self._database.read(notes.paused)

    async def note_paused(self, paused: Paused) -> None:
        """Replace what is paused."""
        await self._database.write(partial(notes.note_paused, paused=paused))

    async def learned(self) -> list[Learned]:
        """Return all learned durations."""
        return await self._database.read(notes.learned)

    async def learn(self, learned: Sequence[Learned]) -> None:
        """Replace learned durations."""
        await self._database.write(partial(notes.learn, learned=learned))

    async def sizes(self) -> Mapping[str, int]:
        """Return the memory models were seen to take, in MB."""
        return await self._database.read(notes.sizes)

    async def note_sizes(self, sizes: Mapping[str, int]) -> None:
        """Replace the memory these models were seen to take, in MB."""
        await self._database.write(partial(notes.note_sizes, sizes=sizes))

    async def residency(self) -> list[tuple[str, str, bool]]:
        """Return (model, backend, pinned) of the copies noted last."""
        return await self._database.read(notes.residency)

    async def note_residency(self, copies: Sequence[tuple[str, str, str, str, bool]]) -> None:
        """Replace the table of copies: (host, backend, model, residency, pinned)."""
        await self._database.write(partial(notes.note_residency, copies=copies))

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
            for move in self._books.moves:
                self._places.move(move)
        self._books.moves.clear()
