"""What counts when a job is accepted: open jobs, jobs of the last hour, and time on the GPUs.

A job has one row in the hour, written with the job and deleted with its failure; nothing else deletes
one before its hour is over. Rows of time are sums of a quarter of an hour: few, and the days of every
time zone consist of them.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from math import inf

from queueing.core.errors import LimitReached
from queueing.core.jobs import FINAL, LATER, Job, JobState, NewJob, SubmitLimits, is_bulk
from queueing.store.jobs import queries
from queueing.store.jobs.positions import QueueKey, account_of
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


class AdmissionCounters:
    """Counts kept by the writer so that no acceptance has to count rows.

    Dropped after a rollback and read again from the rows with the next change.
    """

    def __init__(self, numbers_used: int) -> None:
        self._numbers_used = numbers_used
        self._known = False
        self._last_id = 0
        # Plain dicts: a `Counter` calls Python for each key it does not have.
        self._next_seq: dict[QueueKey, int] = {}  # the first place of a queue is 1
        self._waiting: dict[str, int] = {}  # by model, overflow included
        self._open: dict[str, int] = {}  # by account
        self._placed: dict[str, int] = {}  # by account: open and not in the overflow
        self._charges = Charges()
        self._gpu_use = GpuUse()

    def forget(self) -> None:
        """Drop everything: the transaction it described was rolled back."""
        self._known = False
        self._charges.forget()

    def know(self, connection: Connection) -> None:
        """Count the rows, unless the counters are valid already."""
        if self._known:
            return
        stored = connection.execute(connection.statements.last_id).fetchone()[0]
        self._last_id = max(stored, self._numbers_used)
        self._next_seq.clear()
        self._waiting.clear()
        for model, lane, seq, count in connection.execute(queries.LAST_WAITING):
            self._next_seq[model, lane] = (seq or 0) + 1
            self._waiting[model] = self._waiting.get(model, 0) + count
        for model, lane, seq in connection.execute(queries.LAST_PROCESSING):
            known = self._next_seq.get((model, lane), 1)
            self._next_seq[model, lane] = max(known, (seq or 0) + 1)
        self._open.clear()
        self._placed.clear()
        for owner, bulk, later, count, placed in connection.execute(queries.OWNERS):
            whose = account_of(owner, bulk=bool(bulk), later=bool(later))
            self._open[whose], self._placed[whose] = count, placed
        self._known = True

    # ------------------------------------------------------------ accepting

    def arrive(self) -> None:
        """Begin a batch of acceptances."""
        self._gpu_use.arrive()

    def refusal(
        self, connection: Connection, new: NewJob, limits: SubmitLimits, now: float
    ) -> LimitReached | None:
        """Return the refusal of a job, None if no limit stands against it."""
        if limits.max_per_hour is not None:
            used_up = self._charges.refusal(connection, new.owner, limits.max_per_hour, now)
            if used_up is not None:
                return used_up
        if limits.max_open is not None and self._open.get(account(new), 0) >= limits.max_open:
            return LimitReached("owner", limits.max_open)
        if limits.max_waiting is not None and self._waiting.get(new.model, 0) >= limits.max_waiting:
            return LimitReached("queue", limits.max_waiting)
        return self._gpu_use.refusal(connection, new.owner, limits)

    def admit(self, new: NewJob, max_queued: int | None) -> tuple[int, int | None]:
        """Count a job; return its number, and its place unless it joins its owner's overflow."""
        whose, seq = account(new), None
        unended, placed = self._open.get(whose, 0), self._placed.get(whose, 0)
        if not _must_stand_back(unended, placed, max_queued):
            seq = self.next_place((new.model, new.lane))
            placed += 1
        self._waiting[new.model] = self._waiting.get(new.model, 0) + 1
        self._open[whose], self._placed[whose] = unended + 1, placed
        self._last_id += 1
        return self._last_id, seq

    def charge(self, job: Job) -> None:
        """Count an admitted job against its owner's quotas."""
        self._charges.charge(job)
        self._gpu_use.hold(job.owner, job.gpu_s)

    def write(self, connection: Connection, now: float) -> None:
        """Write what was charged with a batch of acceptances."""
        self._charges.write(connection)
        self._charges.prune(connection, now)

    # ------------------------------------------------------------ places and ends

    def next_place(self, queue: QueueKey) -> int:
        """Take the place behind the last one of a queue."""
        seq = self._next_seq.get(queue, 1)
        self._next_seq[queue] = seq + 1
        return seq

    def entered(self, whose: str) -> None:
        """Note that a job of an account's overflow has got a place."""
        self._placed[whose] += 1

    def let_in(self, whose: str) -> bool:
        """Give a place to an account's overflow; False if it has ended with this batch."""
        placed = self._placed.get(whose, 0)
        if self._open.get(whose, 0) <= placed:
            return False
        self._placed[whose] = placed + 1
        return True

    def count(self, before: Job, after: Job) -> bool:
        """Count a change; return whether its owner's overflow may move up by it."""
        waits = (after.state is JobState.PENDING) - (before.state is JobState.PENDING)
        if waits:
            self._waiting[after.model] = self._waiting.get(after.model, 0) + waits
        return after.state in FINAL and self._end(after)

    def settle(
        self,
        connection: Connection,
        given_back: Sequence[Job],
        used: Sequence[tuple[str, float, float]],
    ) -> None:
        """Stop counting jobs against the hour, and count what ended jobs took of the GPUs."""
        if given_back:
            self._charges.give_back(connection, given_back)
        if used:
            self._gpu_use.count(connection, used)

    def _end(self, job: Job) -> bool:
        whose = account(job)
        unended = self._open[whose] = self._open[whose] - 1
        may_move_up = False
        if job.seq is not None:
            placed = self._placed[whose] = self._placed[whose] - 1
            may_move_up = unended > placed
        if not unended:
            del self._open[whose], self._placed[whose]
        return may_move_up


def account(job: Job | NewJob) -> str:
    """Return the account a job is counted under."""
    return account_of(job.owner, bulk=is_bulk(job.request), later=job.lane == LATER)


def _must_stand_back(unended: int, placed: int, max_queued: int | None) -> bool:
    if max_queued is None:
        return False
    # Behind the owner's own overflow even if a limit was raised, so that they do not pass
    # themselves.
    return placed >= max(1, max_queued) or unended > placed
