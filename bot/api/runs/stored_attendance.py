"""Which processes have calls about a job, in the bot's database.

A job is attended to by the process that accepted it, without a word in the database, until that
process notes that its caller has left or was answered. A process lives as long as its opening of the
database does. One that is taken for dead and is not finds its jobs `taken`.
"""

from collections.abc import Collection, Mapping

from bot.api.runs import sql
from queueing.store.sql.database import Connection, Database

_HERE, _LEFT, _GIVEN_UP, _ANSWERED, _TAKEN = "here", "left", "given up", "answered", "taken"
_FOR_GOOD = frozenset({_GIVEN_UP, _ANSWERED})


class StoredAttendance:
    """Notes which processes have calls about a job. Every call raises `StoreError`.

    The process that accepted a job attends to it unless it says otherwise. A process that has ended
    attends to nothing. `run` names this process; `alone` says that there is no other.
    """

    def __init__(self, database: Database, *, run: str | None = None) -> None:
        self.run = run or database.run
        self.alone = database.alone
        self._database = database

    async def come(self, job_id: int) -> None:
        """Note that a call of this process is about a job."""
        await self._database.write(lambda connection: _note(connection, job_id, self.run, _HERE))

    async def leave(self, job_ids: Collection[int]) -> None:
        """Note that no call of this process is about these jobs any more."""

        def change(connection: Connection) -> None:
            connection.execute(connection.statements.turn, (sql.ATTENDING,))
            for job_id in job_ids:
                _note(connection, job_id, self.run, _LEFT)

        await self._database.write(change)

    async def take_over(self, job_id: int, accepted_by: str) -> bool:
        """Attend to a job that is without a caller; return False if it has or had one.

        Of several that try at once, one gets it. A job whose caller was answered or that was given
        up is not to be had.
        """
        living = await self._living()

        def change(connection: Connection) -> bool:
            states = _states(connection, job_id, accepted_by)
            if not _FOR_GOOD.isdisjoint(states.values()) or _attending(states, living):
                return False
            for run, state in states.items():
                if state == _HERE:
                    _note(connection, job_id, run, _TAKEN)
            _note(connection, job_id, self.run, _HERE)
            return True

        return await self._database.write(change)

    async def answer(self, accepted_by: Mapping[int, str]) -> bool:
        """Note that the callers of these jobs get their answers; False if one was taken over."""

        def change(connection: Connection) -> bool:
            for job_id, run in accepted_by.items():
                if _states(connection, job_id, run).get(self.run) == _TAKEN:
                    return False
            for job_id in accepted_by:
                _note(connection, job_id, self.run, _ANSWERED)
            return True

        return await self._database.write(change)

    async def give_up(self, job_id: int, accepted_by: str) -> bool:
        """Leave a job; return whether it is now without a caller, and then for good."""
        living = await self._living()

        def change(connection: Connection) -> bool:
            states = _states(connection, job_id, accepted_by)
            others = _attending(states, living) - {self.run}
            _note(connection, job_id, self.run, _LEFT if others else _GIVEN_UP)
            return not others

        return await self._database.write(change)

    async def show(self) -> None:
        """Have the other processes see that this one lives, after the server was away."""
        await self._database.write(lambda _connection: None)

    async def _living(self) -> frozenset[str]:
        return await self._database.runs() | {self.run}


def _states(connection: Connection, job_id: int, accepted_by: str) -> Mapping[str, str]:
    """Return how processes attend to a job, which no other one changes until this has."""
    connection.execute(connection.statements.turn, (sql.ATTENDING,))
    rows = connection.execute(sql.ATTENDANCE, (job_id,))
    return {accepted_by: _HERE, **dict(rows)}


def _attending(states: Mapping[str, str], living: Collection[str]) -> set[str]:
    return {run for run, state in states.items() if state == _HERE and run in living}


def _note(connection: Connection, job_id: int, run: str, state: str) -> None:
    connection.execute(sql.NOTE_ATTENDANCE, (run, state, job_id))
