"""Reads jobs and their files. Large files are read in pieces, with other queries in between."""

from collections.abc import Mapping, Sequence

from queueing.core.jobs import Job, JobState
from queueing.core.requests import File, Output, Result, ResultFile
from queueing.core.status import GpuTime, QuarterUse
from queueing.store.jobs import queries
from queueing.store.jobs.rows import Row, files_from, job_from, jobs_of, output_from
from queueing.store.sql.batcher import ChangeKind
from queueing.store.sql.database import Connection, Database

PIECE = 16 * 1024 * 1024
"""Bytes to read at a time: few enough for a slow server to send before it counts as gone."""


class StoredFiles:
    """Reads the inputs and results of jobs.

    Both may be large, so every process reads them from its own database connection, whichever
    process runs the queue. Files of results are numbered from 1.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def inputs(self, job: Job) -> tuple[File, ...] | None:
        """Return the files a job was accepted with, or None once retention has removed them."""
        rows = await self._parts("inputs", queries.INPUTS, job)
        if rows is None or any(mime == queries.REMOVED for _, _, mime, _ in rows):
            return None
        return files_from([row[1:] for row in rows])

    async def output(self, job: Job) -> Output | None:
        """Return the output of a completed job, or None once retention has removed it."""
        rows = await self._parts("outputs", queries.OUTPUTS, job)
        return None if rows is None else output_from(rows)

    async def head(self, job_id: int, number: int) -> ResultFile | None:
        """Return a file's properties, or None if it does not exist or has been removed."""
        row = await self._database.row(queries.RESULT_HEAD, (job_id, number))
        return None if row is None else _file(row)

    async def result(self, job_id: int) -> Result | None:
        """Return a job's result, or None if it has none or it has been removed."""

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
        """Return up to `length` bytes from `start`, or None if the file has been removed."""
        if number < 1:
            return None
        return await self._piece("outputs", (job_id, number), start, length)

    async def _parts(self, table: str, query: str, job: Job) -> list[Row] | None:
        """Return (number, name, mime, data) rows, or None if one is removed during the read."""
        found = await self._database.read(lambda c: c.execute(query, (PIECE, job.id)).fetchall())
        rows: list[Row] = []
        for number, name, mime, size, data in found:
            whole = await self._whole(table, (job.id, number), size) if data is None else data
            if whole is None:
                return None
            rows.append((number, name, mime, whole))
        return rows

    async def _whole(self, table: str, part: tuple[int, int], size: int) -> bytes | None:
        """Return a large file, or None if it is removed during the read."""
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


_ACKNOWLEDGING: ChangeKind[int, None] = ChangeKind(run=_acknowledge)  # one call per job


class StoredJobReader(StoredFiles):
    """Reads the jobs of a database, and marks their ends as delivered."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.database_id = database.id  # keys of attempts are derived from it

    async def get(self, job_id: int) -> Job | None:
        """Return a job, or None if it does not exist."""
        return await self._one(queries.JOB, job_id)

    async def find(self, key: str) -> Job | None:
        """Return the job accepted under an idempotency key, or None."""
        return await self._one(queries.JOB_BY_KEY, key)

    async def open_jobs(self, owner: str | None = None) -> list[Job]:
        """Return the open jobs of an owner, or of everyone, oldest first."""
        if owner is None:
            return await self._many(queries.OPEN_JOBS)
        return await self._many(queries.OPEN_JOBS_OF, owner)

    async def held_jobs(self) -> list[Job]:
        """Return the jobs that wait for another request before they may start, oldest first."""
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
        """Return an owner's open and ended jobs, newest first.

        `before` is a job id: only older jobs are returned. Jobs made for other jobs and bulk jobs
        are included only with `made_for_jobs`, which ignores `states`. Otherwise, `states` limits
        the result to jobs in these states.
        """
        last = before if before is not None else queries.AFTER_ALL
        if made_for_jobs:
            return await self._many(queries.WHOLE_HISTORY, owner, last, owner, last, limit)
        if states:
            found = queries.history_in(len(states))
            return await self._many(found, owner, last, *map(str, states), limit)
        return await self._many(queries.HISTORY, owner, last, limit)

    async def processing(self) -> list[Job]:
        """Return the jobs in state processing, oldest start first. After a restart: orphans."""
        return await self._many(queries.PROCESSING)

    async def overtaking(self) -> list[Job]:
        """Return the ended jobs that started before jobs that still wait ahead of them, oldest first.

        After a restart, a later job may be given the place of one of them.
        """
        return await self._many(queries.OVERTAKING)

    async def abandoned(self) -> list[Job]:
        """Return the jobs cancelled after a start and not acknowledged, oldest first.

        After a restart, their servers may not know about the cancellation.
        """
        return await self._many(queries.ABANDONED)

    async def unacknowledged(self, owner: str | None = None) -> list[Job]:
        """Return the jobs that are open or not acknowledged, oldest first."""

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
        """Return at most `limit` waiting jobs with an id above `after`, oldest first.

        If `after` is 0, all running jobs and all unacknowledged ended ones come first, not counted
        against `limit`.
        """

        def query(connection: Connection) -> list[Job]:
            others = (queries.UNDELIVERED, queries.PROCESSING) if after == 0 else ()
            waiting = queries.waiting_among(connection.statements.open_after)
            first = [job for text in others for job in jobs_of(connection, text)]
            return first + jobs_of(connection, waiting, (after, limit))

        return await self._database.read(query)

    async def gpu_time(self, owner: str, since: float) -> GpuTime:
        """Return the GPU time that an owner has used since a moment, and what open jobs hold.

        A job counts when it ends; a failed job does not count.
        """

        def query(connection: Connection) -> GpuTime:
            (used_s,) = connection.execute(queries.GPU_USED, (owner, since)).fetchone()
            (held_s,) = connection.execute(queries.GPU_HELD, (owner,)).fetchone()
            return GpuTime(used_s=used_s, held_s=held_s)

        return await self._database.read(query)

    async def gpu_used(self, since: float) -> Mapping[str, float]:
        """Return the GPU seconds that each owner has used since a moment."""
        return dict(await self._database.rows(queries.GPU_USERS, (since,)))

    async def gpu_quarters(self, since: float) -> list[QuarterUse]:
        """Return each owner's GPU use since a moment by quarter of an hour, oldest first."""
        rows = await self._database.rows(queries.GPU_QUARTERS, (since,))
        return [QuarterUse(owner=owner, at=at, seconds=seconds) for owner, at, seconds in rows]

    async def expired(self, now: float) -> list[Job]:
        """Return the jobs that expired before they started."""
        return await self._many(queries.EXPIRED, now)

    async def newest_moment(self) -> float | None:
        """Return the newest accept, start or end time of the latest jobs, or None without jobs."""
        return await self._moment(queries.NEWEST_MOMENT)

    async def next_expiry(self) -> float | None:
        """Return when the next waiting job expires, or None if none does."""
        return await self._moment(queries.NEXT_EXPIRY)

    async def dated(self) -> list[Job]:
        """Return the waiting jobs that have a deadline, soonest first."""
        return await self._many(queries.DATED)

    async def acknowledge(self, job: Job) -> None:
        """Record that a job's end has been delivered. Idempotent."""
        await self._database.submit(_ACKNOWLEDGING, job.id)

    async def _moment(self, query: str) -> float | None:
        (moment,) = await self._database.row(query)
        return None if moment is None else float(moment)

    async def _one(self, query: str, parameter: int | str) -> Job | None:
        def first(connection: Connection) -> Job | None:
            row = connection.execute(query, (parameter,)).fetchone()
            return None if row is None else job_from(row)  # its request may be large

        return await self._database.read(first)

    async def _many(self, query: str, *parameters: str | float) -> list[Job]:
        return await self._database.read(lambda connection: jobs_of(connection, query, parameters))
