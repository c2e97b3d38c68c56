"""The audit log: every admin action, with its actor, its target and its time."""

from dataclasses import dataclass

from bot.people import sql
from queueing.store.sql.database import Database


@dataclass(frozen=True, kw_only=True, slots=True)
class Act:
    """An admin's action. `at` is in UNIX seconds."""

    at: float
    actor: str
    action: str
    subject: str
    detail: str = ""


class AuditLog:
    """Appends and reads entries in the jobs' database. Entries are never changed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def write(self, act: Act) -> None:
        """Record an action. Durable on return."""
        await self._database.execute(
            sql.ADD_ACT, (act.at, act.actor, act.action, act.subject, act.detail)
        )

    async def newest(self, limit: int) -> list[Act]:
        """Return the newest entries, newest first."""
        return [
            Act(at=row[0], actor=row[1], action=row[2], subject=row[3], detail=row[4])
            for row in await self._database.rows(sql.NEWEST_ACTS, (limit,))
        ]
