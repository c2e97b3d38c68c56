"""Limits that are checked when a job is accepted: open jobs, hourly quotas and GPU time.

A job has one row in the hourly quota. The row is written with the job, and deleted if the job fails
or once it is an hour old. GPU time is stored as sums per quarter of an hour. This needs few rows,
and in every time zone a day consists of whole quarters.
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
_Charge = tuple[float, int]  # time and job id


class Charges:
    """Counts jobs against hourly quotas, inside the writer's transaction.

    The table is ordered by job, which makes writing cheap, and has no index by owner. The last hour
    is therefore cached from the first check of a quota on.
    """

    def __init__(self) -> None:
        self._new: list[Row] = []
        self._hour: dict[str, list[_Charge]] | None = None  # by owner, oldest first
        self._pruned_at: float | None = None

    def forget(self) -> None:
        """Discard all cached state after a rollback."""
        self._new.clear()
        self._hour = None

    def charge(self, job: Job) -> None:
        """Count a job that is being accepted, unless it is bulk or made for another job."""
        if job.parent is None and not is_bulk(job.request):
            self._new.append((job.id, job.owner, job.queued_at))
            if self._hour is not None:
                insort(self._hour.setdefault(job.owner, []), (job.queued_at, job.id))

    def write(self, connection: Connection) -> None:
        """Write the jobs counted by `charge`."""
        if self._new:
            insert_rows(connection, queries.CHARGE, queries.CHARGE_SEVERAL, self._new)
            self._new.clear()

    def give_back(self, connection: Connection, jobs: Sequence[Job]) -> None:
        """Stop counting these jobs."""
        given = connection.selectmany(queries.GIVE_BACK, [(job.id,) for job in jobs])
        for job, rows in zip(jobs, given, strict=True):
            for (at,) in rows:  # no row if the job was not counted
                charge, charges = (at, job.id), (self._hour or {}).get(job.owner, [])
                place = bisect_left(charges, charge)
                if charges[place : place + 1] == [charge]:  # the cache lacks older charges
                    del charges[place]

    def refusal(
        self, connection: Connection, owner: str, per_hour: int, now: float
    ) -> LimitReached | None:
        """Return why one more job is refused, or None if the hourly quota has room."""
        if per_hour <= 0:
            return LimitReached("hour", per_hour, free_at=now + HOUR_S)
        if self._hour is None:
            self._hour = self._read(connection, now)
        charges = self._hour.get(owner, ())
        first = bisect_right(charges, (now - HOUR_S, inf))
        after = bisect_right(charges, (now, inf))  # some may be later, if the clock was set back
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
        """Delete charges older than an hour, at intervals."""
        if self._pruned_at is not None and abs(now - self._pruned_at) < _PRUNE_EVERY_S:
            return
        connection.execute(queries.PRUNE_CHARGES, (now - HOUR_S,))
        self._pruned_at = now
        self._hour = None  # so that the cache does not grow without bound


QUARTER_S = 900.0
KEPT_S = 2 * 86_400.0  # today and yesterday in any time zone
_PRUNE_SUMS_EVERY_S = 3600.0


class GpuUse:
    """Counts GPU time inside the writer's transaction."""

    def __init__(self) -> None:
        self._pruned_at: float | None = None
        self._arriving: dict[str, float] = {}  # held by jobs of this batch, not written yet

    def arrive(self) -> None:
        """Begin a batch of accepted jobs."""
        self._arriving.clear()

    def hold(self, owner: str, seconds: float) -> None:
        """Hold the time that an accepted job is expected to take."""
        if seconds:
            self._arriving[owner] = self._arriving.get(owner, 0.0) + seconds

    def refusal(
        self, connection: Connection, owner: str, limits: SubmitLimits
    ) -> LimitReached | None:
        """Return why one more job is refused, or None if its owner has GPU time left.

        The last job accepted may take more than is left.
        """
        if limits.max_gpu_s is None:
            return None
        (used_s,) = connection.execute(queries.GPU_USED, (owner, limits.gpu_since)).fetchone()
        (held_s,) = connection.execute(queries.GPU_HELD, (owner,)).fetchone()
        if used_s + held_s + self._arriving.get(owner, 0.0) < limits.max_gpu_s:
            return None
        return LimitReached("gpu", round(limits.max_gpu_s))

    def count(self, connection: Connection, used: Iterable[tuple[str, float, float]]) -> None:
        """Add the GPU time of ended jobs, given as (owner, end, seconds)."""
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
    """Counts that the writer keeps in memory, so that accepting a job need not count rows.

    Discarded after a rollback and read from the rows again at the next change.
    """

    def __init__(self, numbers_used: int) -> None:
        self._numbers_used = numbers_used
        self._known = False
        self._last_id = 0
        # Plain dicts, because `Counter` runs Python code for each missing key.
        self._next_seq: dict[QueueKey, int] = {}  # places start at 1
        self._waiting: dict[str, int] = {}  # by model, including the overflow
        self._open: dict[str, int] = {}  # by account
        self._placed: dict[str, int] = {}  # by account: open jobs outside the overflow
        self._charges = Charges()
        self._gpu_use = GpuUse()

    def forget(self) -> None:
        """Discard all counts after a rollback."""
        self._known = False
        self._charges.forget()

    def know(self, connection: Connection) -> None:
        """Read the counts from the rows, unless they are valid."""
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
        """Begin a batch of accepted jobs."""
        self._gpu_use.arrive()

    def refusal(
        self, connection: Connection, new: NewJob, limits: SubmitLimits, now: float
    ) -> LimitReached | None:
        """Return why a job is refused, or None if it is within all limits."""
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
        """Count a job. Returns its id and its place, which is None in its owner's overflow."""
        whose, seq = account(new), None
        unended, placed = self._open.get(whose, 0), self._placed.get(whose, 0)
        if not _must_join_overflow(unended, placed, max_queued):
            seq = self.next_place((new.model, new.lane))
            placed += 1
        self._waiting[new.model] = self._waiting.get(new.model, 0) + 1
        self._open[whose], self._placed[whose] = unended + 1, placed
        self._last_id += 1
        return self._last_id, seq

    def charge(self, job: Job) -> None:
        """Count an accepted job against its owner's quotas."""
        self._charges.charge(job)
        self._gpu_use.hold(job.owner, job.gpu_s)

    def write(self, connection: Connection, now: float) -> None:
        """Write the charges of a batch of accepted jobs."""
        self._charges.write(connection)
        self._charges.prune(connection, now)

    # ------------------------------------------------------------ places and ends

    def next_place(self, queue: QueueKey) -> int:
        """Take the place after the last one of a queue."""
        seq = self._next_seq.get(queue, 1)
        self._next_seq[queue] = seq + 1
        return seq

    def entered(self, whose: str) -> None:
        """Record that an overflow job of an account has entered its queue."""
        self._placed[whose] += 1

    def let_in(self, whose: str) -> bool:
        """Give a place to an overflow job of an account. Returns False if no overflow is left."""
        placed = self._placed.get(whose, 0)
        if self._open.get(whose, 0) <= placed:
            return False
        self._placed[whose] = placed + 1
        return True

    def count(self, before: Job, after: Job) -> bool:
        """Count a change. Returns whether it lets a job of its owner's overflow move up."""
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
        """Stop counting given-back jobs against the hour, and add the GPU time of ended ones."""
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
    """Return the account a job is counted under: its owner, by kind of job."""
    return account_of(job.owner, bulk=is_bulk(job.request), later=job.lane == LATER)


def _must_join_overflow(unended: int, placed: int, max_queued: int | None) -> bool:
    if max_queued is None:
        return False
    # A job also joins its owner's existing overflow if the limit was raised, so that it does not
    # overtake the owner's earlier jobs.
    return placed >= max(1, max_queued) or unended > placed
