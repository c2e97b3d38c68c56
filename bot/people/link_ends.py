"""How often the links to a job's files were ended, in the jobs' database."""

from bot.people import sql
from queueing.store.sql.database import Connection, Database


class LinkEnds:
    """How often the links to a job's files were ended. Every end is durable when it returns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def end(self, job_id: int) -> None:
        """Count one more end of a job's links; no effect if there is no such job."""

        def change(connection: Connection) -> None:
            connection.execute(sql.END_LINKS, (job_id,))

        await self._database.write(change)

    async def of(self, job_id: int) -> int:
        """Return how often a job's links were ended."""

        def query(connection: Connection) -> int:
            row = connection.execute(sql.LINK_ENDS, (job_id,)).fetchone()
            return 0 if row is None else int(row[0])

        return await self._database.read(query)
