"""Reads the files of jobs; large ones in pieces, so that others are answered in between."""

from queueing.core.jobs import Job
from queueing.core.requests import File, Output, Result, ResultFile
from queueing.store.jobs import queries
from queueing.store.jobs.rows import Row, files_from, output_from
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
