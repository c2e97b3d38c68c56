"""`ResultFiles`: reads files of results in pieces, so that a large one is never in memory whole."""

from queueing.core.storage import ResultFile
from queueing.store.database import Connection, Database
from queueing.store.jobs import queries


class StoredFiles:
    """`ResultFiles` in the jobs' database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def head(self, job_id: int, number: int) -> ResultFile | None:
        """Return a file's properties, None if it is not kept (any more)."""

        def query(connection: Connection) -> ResultFile | None:
            row = connection.execute(queries.RESULT_HEAD, (job_id, number)).fetchone()
            return None if row is None else ResultFile(owner=row[0], name=row[1], size=row[2])

        return await self._database.read(query)

    async def piece(self, job_id: int, number: int, start: int, length: int) -> bytes | None:
        """Return up to `length` bytes from `start`; None if the file is not kept (any more)."""
        if number < 1:
            return None
        key = {"job_id": job_id, "number": number}
        return await self._database.read(
            lambda connection: connection.piece("outputs", key, start, length)
        )
