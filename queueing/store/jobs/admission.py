"""What counts against each person: jobs accepted within the last hour, and time on the GPUs.

A job has one row in the hour, written with the job and deleted with its failure; nothing else deletes
one before its hour is over. Rows of time are sums of a quarter of an hour: few, and the days of every
time zone consist of them.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from math import inf

from queueing.core.errors import LimitReached
from queueing.core.jobs import Job, SubmitLimits, is_bulk
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


QUARTER_S = 900.0
KEPT_S = 2 * 86_400.0  # a day of any time zone, and the one before it
_PRUNE_SUMS_EVERY_S = 3600.0


class GpuUse:
    """Counts inside the writer's transaction."""

    def __init__(self) -> None:
        self._pruned_at: float | None = None
        self._arriving: dict[str, float] = {}  # held by jobs of this batch, whose rows come last

    def arrive(self) -> None:
        """Begin a batch of acceptances."""
        self._arriving.clear()

    def hold(self, owner: str, seconds: float) -> None:
        """Hold what a job that is being accepted will probably take."""
        if seconds:
            self._arriving[owner] = self._arriving.get(owner, 0.0) + seconds

    def refusal(
        self, connection: Connection, owner: str, limits: SubmitLimits
    ) -> LimitReached | None:
        """Return the refusal of one more job, None while some of the owner's time is left.

        The job itself may take more than is left: then it is the last one.
        """
        if limits.max_gpu_s is None:
            return None
        (used_s,) = connection.execute(queries.GPU_USED, (owner, limits.gpu_since)).fetchone()
        (held_s,) = connection.execute(queries.GPU_HELD, (owner,)).fetchone()
        if used_s + held_s + self._arriving.get(owner, 0.0) < limits.max_gpu_s:
            return None
        return LimitReached("gpu", round(limits.max_gpu_s))

    def count(self, connection: Connection, used: Iterable[tuple[str, float, float]]) -> None:
        """Count what ended jobs took: their owners, moments and seconds."""
        sums: dict[tuple[str, float], float] = {}
        now = None
        for owner, now, seconds in used:
            key = owner, now // QUARTER_S * QUARTER_S
            sums[key] = sums.get(key, 0.0) + seconds
        rows = [(owner, at, seconds) for (owner, at), seconds in sorted(sums.items())]
        connection.executemany(queries.USE_GPU, rows)
        if now is not None:
            self._prune(connection, now)

    def _prune(self, connection: Connection, now: float) -> None:
        if self._pruned_at is None or abs(now - self._pruned_at) >= _PRUNE_SUMS_EVERY_S:
            connection.execute(queries.PRUNE_GPU_USE, (now - KEPT_S,))
            self._pruned_at = now
