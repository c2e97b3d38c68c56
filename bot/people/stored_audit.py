"""`AuditLog`: every act of an admin, in the jobs' database."""

from bot.people import sql
from bot.people.audit_log import Act
from queueing.store import Connection, Database


class StoredAuditLog:
    """`AuditLog` in the jobs' database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def write(self, act: Act) -> None:
        """Record an act; durable when it returns."""

        def change(connection: Connection) -> None:
            connection.execute(
                sql.ADD_ACT, (act.at, act.actor, act.action, act.subject, act.detail)
            )

        await self._database.write(change)

    async def newest(self, limit: int) -> list[Act]:
        """Return the newest acts, newest first."""

        def query(connection: Connection) -> list[Act]:
            rows = connection.execute(sql.NEWEST_ACTS, (limit,))
            return [
                Act(at=row[0], actor=row[1], action=row[2], subject=row[3], detail=row[4])
                for row in rows
            ]

        return await self._database.read(query)
