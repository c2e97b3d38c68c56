"""Hourly quotas: the jobs accepted for each person within the last hour.

One row for each job of a person, written with the job and deleted with its failure; nothing else
deletes one before its hour is over.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from math import inf

from queueing.core.errors import LimitReached
from queueing.core.jobs import Job, is_bulk
from queueing.store.jobs import queries
from queueing.store.jobs.rows import Row, insert_rows
from queueing.store.sql.database import Connection

HOUR_S = 3600.0
_PRUNE_EVERY_S = 600.0
_Charge = tuple[float, int]  # moment and job


class Charges:
    """Counts against quotas inside the writer's transaction.

    Caches the hour once a quota is checked: a table in the order of its jobs is cheap to write, and
    has no index to find a person by.
    """

    def __init__(self) -> None:
        self._new: list[Row] = []
        self._hour: dict[str, list[_Charge]] | None = None  # by owner, oldest first
        self._pruned_at: float | None = None

    def forget(self) -> None:
        """Drop everything: the transaction it described was rolled back."""
        self._new.clear()
        self._hour = None

    def charge(self, job: Job) -> None:
        """Count a job that is being accepted; bulk, or a job made for another, is not counted."""
        if job.parent is None and not is_bulk(job.request):
            self._new.append((job.id, job.owner, job.queued_at))
            if self._hour is not None:
                insort(self._hour.setdefault(job.owner, []), (job.queued_at, job.id))

    def write(self, connection: Connection) -> None:
        """Write what was charged."""
        if self._new:
            insert_rows(connection, queries.CHARGE, queries.CHARGE_SEVERAL, self._new)
            self._new.clear()

    def give_back(self, connection: Connection, jobs: Sequence[Job]) -> None:
        """Stop counting these jobs."""
        given = connection.selectmany(queries.GIVE_BACK, [(job.id,) for job in jobs])
        for job, rows in zip(jobs, given, strict=True):
            for (at,) in rows:  # none, if it was not counted
                charge, charges = (at, job.id), (self._hour or {}).get(job.owner, [])
                place = bisect_left(charges, charge)
                if charges[place : place + 1] == [charge]:  # an older one was not read
                    del charges[place]

    def refusal(
        self, connection: Connection, owner: str, per_hour: int, now: float
    ) -> LimitReached | None:
        """Return the refusal of one more job, None while the hour's quota is not used up."""
        if per_hour <= 0:
            return LimitReached("hour", per_hour, free_at=now + HOUR_S)
        if self._hour is None:
            self._hour = self._read(connection, now)
        charges = self._hour.get(owner, ())
        first = bisect_right(charges, (now - HOUR_S, inf))
        after = bisect_right(charges, (now, inf))  # a clock that was set back leaves some beyond
        if after - first < per_hour:
            return None
        return LimitReached("hour", per_hour, free_at=charges[after - per_hour][0] + HOUR_S)

    def _read(self, connection: Connection, now: float) -> dict[str, list[_Charge]]:
        self.write(connection)
        hour: dict[str, list[_Charge]] = {}
        for job_id, owner, at in connection.execute(queries.CHARGES, (now - HOUR_S,)):
            insort(hour.setdefault(owner, []), (at, job_id))
        return hour

    def prune(self, connection: Connection, now: float) -> None:
        """Delete what is older than an hour, from time to time."""
        if self._pruned_at is not None and abs(now - self._pruned_at) < _PRUNE_EVERY_S:
            return
        connection.execute(queries.PRUNE_CHARGES, (now - HOUR_S,))
        self._pruned_at = now
        self._hour = None  # read again when needed, so that it does not grow for ever
