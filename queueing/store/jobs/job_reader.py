"""Reads jobs and their files; large ones in pieces, so that others are answered in between."""

from collections.abc import Mapping, Sequence

from queueing.core.jobs import Job, JobState
from queueing.core.requests import File, Output, Result, ResultFile
from queueing.core.status import GpuTime, QuarterUse
from queueing.store.jobs import queries
from queueing.store.jobs.rows import Row, files_from, job_from, jobs_of, output_from
from queueing.store.sql.batcher import ChangeKind
from queueing.store.sql.database import Connection, Database

PIECE = 16 * 1024 * 1024
"""Bytes read at a time: a slow server has sent them long before it counts as gone."""


class StoredFiles:
    """Reads what jobs were accepted with and what they produced.

    Both may be large: every process reads them from the database that it has open, whoever holds
    the queue. Files of results are numbered from 1.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def inputs(self, job: Job) -> tuple[File, ...] | None:
        """Return the files the job was accepted with; None after retention removed them."""
        rows = await self._parts("inputs", queries.INPUTS, job)
        if rows is None or any(mime == queries.REMOVED for _, _, mime, _ in rows):
            return None
        return files_from([row[1:] for row in rows])

    async def output(self, job: Job) -> Output | None:
        """Return what a completed job produced; None after retention removed it."""
        rows = await self._parts("outputs", queries.OUTPUTS, job)
        return None if rows is None else output_from(rows)

    async def head(self, job_id: int, number: int) -> ResultFile | None:
        """Return a file's properties, None if it is not kept (any more)."""

        def query(connection: Connection) -> ResultFile | None:
            row = connection.execute(queries.RESULT_HEAD, (job_id, number)).fetchone()
            return None if row is None else _file(row)

        return await self._database.read(query)

    async def result(self, job_id: int) -> Result | None:
        """Return a job's result, None if there is none (any more)."""

        def query(connection: Connection) -> Result | None:
            texts = connection.execute(queries.RESULT_TEXTS, (job_id,)).fetchall()
            files = connection.execute(queries.RESULT_HEADS, (job_id,)).fetchall()
            said = output_from(texts)
            if said is None and not files:
                return None
            return Result(
                text=said.text if said is not None else "",
                answer=said.answer if said is not None else "",
                files=tuple(map(_file, files)),
            )

        return await self._database.read(query)

    async def piece(self, job_id: int, number: int, start: int, length: int) -> bytes | None:
        """Return up to `length` bytes from `start`; None if the file is not kept (any more)."""
        if number < 1:
            return None
        return await self._piece("outputs", (job_id, number), start, length)

    async def _parts(self, table: str, query: str, job: Job) -> list[Row] | None:
        """Return (number, name, mime, data) rows; None if one of them is removed meanwhile."""
        found = await self._database.read(lambda c: c.execute(query, (PIECE, job.id)).fetchall())
        rows: list[Row] = []
        for number, name, mime, size, data in found:
            whole = await self._whole(table, (job.id, number), size) if data is None else data
            if whole is None:
                return None
            rows.append((number, name, mime, whole))
        return rows

    async def _whole(self, table: str, part: tuple[int, int], size: int) -> bytes | None:
        """Return a large file, None if it is removed before its end is read."""
        pieces: list[bytes] = []
        for start in range(0, size, PIECE):
            piece = await self._piece(table, part, start, PIECE)
            if not piece:
                return None
            pieces.append(piece)
        return b"".join(pieces)

    async def _piece(
        self, table: str, part: tuple[int, int], start: int, length: int
    ) -> bytes | None:
        key = dict(zip(("job_id", "number"), part, strict=True))
        return await self._database.read(
            lambda connection: connection.piece(table, key, start, length)
        )


def _file(row: Row) -> ResultFile:
    owner, name, mime, size = row
    return ResultFile(owner=owner, name=name, mime=mime, size=size)


def _acknowledge(connection: Connection, job_ids: Sequence[int]) -> Sequence[None]:
    connection.executemany(queries.ACKNOWLEDGE, [(job_id,) for job_id in job_ids])
    return [None] * len(job_ids)


_ACKNOWLEDGING: ChangeKind[int, None] = ChangeKind(run=_acknowledge)  # there is one for each job


class StoredJobReader(StoredFiles):
    """Reads the jobs of a database, and notes that their ends were seen."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.database_id = database.id  # attempts derive their keys from it

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

    async def held_jobs(self) -> list[Job]:
        """Return the jobs that start only once they are given another request, oldest first."""
        return await self._many(queries.HELD)

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

        `before` is the id of a job: only older ones are returned. Jobs made for a job, and bulk,
        are left out unless `made_for_jobs`. With `states`, only jobs in one of them are returned.
        """
        last = before if before is not None else queries.AFTER_ALL
        if made_for_jobs:
            return await self._many(queries.WHOLE_HISTORY, owner, last, owner, last, limit)
        if states:
            found = queries.history_in(len(states))
            return await self._many(found, owner, last, *map(str, states), limit)
        return await self._many(queries.HISTORY, owner, last, limit)

    async def processing(self) -> list[Job]:
        """Return the jobs in state processing, oldest start first (after a restart: orphans)."""
        return await self._many(queries.PROCESSING)

    async def overtaking(self) -> list[Job]:
        """Return the ended jobs that started before one that waits ahead of them, oldest first.

        One that comes later may have the place that such a job had.
        """
        return await self._many(queries.OVERTAKING)

    async def abandoned(self) -> list[Job]:
        """Return the jobs cancelled after a start and not yet acknowledged, oldest first.

        After a restart, the server of such a job may not know of the cancellation.
        """
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
        """Return at most `limit` waiting jobs whose number is above `after`, oldest first.

        With 0, those that run and those that ended and are not yet acknowledged come before them,
        however many there are.
        """

        def query(connection: Connection) -> list[Job]:
            others = (queries.UNDELIVERED, queries.PROCESSING) if after == 0 else ()
            waiting = queries.waiting_among(connection.statements.open_after)
            first = [job for text in others for job in jobs_of(connection, text)]
            return first + jobs_of(connection, waiting, (after, limit))

        return await self._database.read(query)

    async def gpu_time(self, owner: str, since: float) -> GpuTime:
        """Return what an owner's jobs took of the GPUs since a moment, and what is held.

        A job counts from its end; a failed one never does.
        """

        def query(connection: Connection) -> GpuTime:
            (used_s,) = connection.execute(queries.GPU_USED, (owner, since)).fetchone()
            (held_s,) = connection.execute(queries.GPU_HELD, (owner,)).fetchone()
            return GpuTime(used_s=used_s, held_s=held_s)

        return await self._database.read(query)

    async def gpu_used(self, since: float) -> Mapping[str, float]:
        """Return how many seconds of the GPUs each owner's jobs took since a moment."""

        def query(connection: Connection) -> Mapping[str, float]:
            return dict(connection.execute(queries.GPU_USERS, (since,)).fetchall())

        return await self._database.read(query)

    async def gpu_quarters(self, since: float) -> list[QuarterUse]:
        """Return what each owner's jobs took of the GPUs since a moment, the oldest first."""

        def query(connection: Connection) -> list[QuarterUse]:
            rows = connection.execute(queries.GPU_QUARTERS, (since,))
            return [QuarterUse(owner=owner, at=at, seconds=seconds) for owner, at, seconds in rows]

        return await self._database.read(query)

    async def expired(self, now: float) -> list[Job]:
        """Return the jobs that have not begun although they should have by now."""
        return await self._many(queries.EXPIRED, now)

    async def newest_moment(self) -> float | None:
        """Return when the newest of the latest jobs came, began or ended; None without any job."""
        return await self._moment(queries.NEWEST_MOMENT)

    async def next_expiry(self) -> float | None:
        """Return when the next job ends unless it begins, None if no waiting one does."""
        return await self._moment(queries.NEXT_EXPIRY)

    async def dated(self) -> list[Job]:
        """Return the waiting jobs that shall be done at a moment, the soonest first."""
        return await self._many(queries.DATED)

    async def acknowledge(self, job: Job) -> None:
        """Note that the person has the job's end: it is not listed again. Idempotent."""
        await self._database.submit(_ACKNOWLEDGING, job.id)

    async def _moment(self, query: str) -> float | None:
        def first(connection: Connection) -> float | None:
            (moment,) = connection.execute(query).fetchone()
            return None if moment is None else float(moment)

        return await self._database.read(first)

    async def _one(self, query: str, parameter: int | str) -> Job | None:
        def first(connection: Connection) -> Job | None:
            row = connection.execute(query, (parameter,)).fetchone()
            return None if row is None else job_from(row)

        return await self._database.read(first)

    async def _many(self, query: str, *parameters: str | float) -> list[Job]:
        return await self._database.read(lambda connection: jobs_of(connection, query, parameters))
