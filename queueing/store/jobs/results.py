"""`ResultFiles`: reads files of results in pieces, so that a large one is never in memory whole."""

from queueing.core.storage import Result, ResultFile
from queueing.store.database import Connection, Database
from queueing.store.jobs import queries
from queueing.store.jobs.rows import Row, output_from


class StoredFiles:
    """`ResultFiles` in the jobs' database."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
        key = {"job_id": job_id, "number": number}
        return await self._database.read(
            lambda connection: connection.piece("outputs", key, start, length)
        )


def _file(row: Row) -> ResultFile:
    owner, name, mime, size = row
    return ResultFile(owner=owner, name=name, mime=mime, size=size)
