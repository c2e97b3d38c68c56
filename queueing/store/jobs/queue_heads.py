"""Caches the first startable jobs of every queue, and computes the start order from them."""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from queueing.core.jobs import HELD_UNTIL, Job, StartOrder
from queueing.core.snapshot import QueueHead
from queueing.store.jobs import queries
from queueing.store.jobs.positions import PositionIndex, QueueKey
from queueing.store.jobs.rows import Row, job_from
from queueing.store.sql.database import Connection

# No delay is longer: a later time was written before the clock was set back.
_LONGEST_DELAY_S = 3600.0
_MOST_ROWS = 5000  # of a queue, read in one statement


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """A queue as read at one revision; `queue` is None if it had no jobs."""

    revision: int
    per_queue: int
    read_at: float
    queue: QueueHead | None


class QueueHeads:
    """Caches queues between reads: the scheduler reads after every event, but few queues change."""

    def __init__(self) -> None:
        self._seen: dict[QueueKey, _Seen] = {}

    def stale(
        self, places: PositionIndex, now: float, per_queue: int
    ) -> list[tuple[QueueKey, int, int]]:
        """Return (queue, revision, waiting jobs) of the queues that must be read again."""
        return [
            (queue.key, queue.revision, queue.waiting)
            for queue in places.queues()
            if (seen := self._seen.get(queue.key)) is None
            or seen.revision != queue.revision
            or not self._holds(seen, now, per_queue)
        ]

    @staticmethod
    def _holds(seen: _Seen, now: float, per_queue: int) -> bool:
        return (
            seen.per_queue == per_queue
            and seen.read_at <= now
            and (seen.queue is None or _later(seen.queue.next_start_at, now))
        )

    def read(
        self,
        connection: Connection,
        stale: Sequence[tuple[QueueKey, int, int]],
        now: float,
        per_queue: int,
    ) -> None:
        """Read queues on the reader's connection."""
        walks = [_Walk(key, waiting, now, per_queue) for key, _, waiting in stale]
        _walk_all(connection, walks)
        known = {
            job.id: job
            for key, _, _ in stale
            if (seen := self._seen.get(key)) is not None and seen.queue is not None
            for job in seen.queue.heads
        }
        missing = [
            (job_id,)
            for walk in walks
            for job_id, version in walk.heads.items()
            if (job := known.get(job_id)) is None or job.version != version
        ]
        for rows in connection.selectmany(queries.JOB, missing):
            known.update((row[0], job_from(row)) for row in rows)
        for (key, revision, _), walk in zip(stale, walks, strict=True):
            queue = walk.queue(known)
            self._seen[key] = _Seen(
                revision=revision, per_queue=per_queue, read_at=now, queue=queue
            )

    def passed(self, key: QueueKey) -> Sequence[int]:
        """Return the jobs that others in their queue pass, as last read. Some may have left it."""
        seen = self._seen.get(key)
        return () if seen is None or seen.queue is None else seen.queue.passed

    def queues(self, places: PositionIndex) -> list[QueueHead]:
        """Return the queues as last read."""
        found = (self._seen.get(waiting.key) for waiting in places.queues())
        return [seen.queue for seen in found if seen is not None and seen.queue is not None]


def _later(moment: float | None, now: float) -> bool:
    return moment is None or moment > now


class _Walk:
    """Reads a queue until enough startable jobs are found, passing over delayed ones."""

    def __init__(self, key: QueueKey, waiting: int, now: float, per_queue: int) -> None:
        self._key = key
        self._waiting = waiting
        self._now = now
        self._per_queue = per_queue
        self._last = queries.BEFORE_ALL
        self._first_queued_at: float | None = None
        self._next_start_at: float | None = None
        self._held = False
        self._passed: list[int] = []
        self._rows = per_queue + 1  # one more, to see whether others could start later
        self.heads: dict[int, int] = {}
        """Versions of the startable jobs, by id."""

    def question(self) -> tuple[str, str, int, int]:
        """Return the parameters of the next `QUEUE` query."""
        return (*self._key, self._last, self._rows)

    def follow(self, rows: Sequence[Row]) -> bool:
        """Process the next rows. Returns whether more are needed."""
        for job_id, version, not_before, queued_at, sendings, seq in rows:
            self._last = seq
            if self._first_queued_at is None:
                self._first_queued_at = queued_at
            is_held = not_before >= HELD_UNTIL  # a change ends this, and the queue is read again
            if is_held or self._now < not_before <= self._now + _LONGEST_DELAY_S:
                if not is_held:
                    self._next_start_at = min(not_before, self._next_start_at or not_before)
                self._held = self._held or sendings == 0  # later delays are pauses after an attempt
                if not self.heads:
                    self._passed.append(job_id)
                continue
            if len(self.heads) == self._per_queue:
                return False
            self.heads[job_id] = version
        more = len(rows) == self._rows
        self._rows = min(self._rows * 10, _MOST_ROWS)
        return more

    def queue(self, jobs: Mapping[int, Job]) -> QueueHead | None:
        """Return the queue as read, or None if it is empty."""
        if self._first_queued_at is None:
            return None
        return QueueHead(
            model=self._key[0],
            lane=self._key[1],
            waiting=self._waiting,
            heads=tuple(jobs[job_id] for job_id in self.heads),
            first_queued_at=self._first_queued_at,
            next_start_at=self._next_start_at,
            held=self._held,
            passed=tuple(self._passed),
        )


def _walk_all(connection: Connection, walks: Sequence[_Walk]) -> None:
    """Read all queues in parallel, each as far as needed."""
    while walks:
        pages = connection.selectmany(queries.QUEUE, [walk.question() for walk in walks])
        walks = [walk for walk, rows in zip(walks, pages, strict=True) if walk.follow(rows)]


def turns(
    places: PositionIndex, heads: QueueHeads, job_ids: Sequence[int], begun: Collection[int]
) -> Mapping[int, StartOrder]:
    """Return the start order of each job that has a place."""
    models: dict[str, tuple[Mapping[str, int], Mapping[QueueKey, list[int]]]] = {}
    found = {}
    for job_id in job_ids:
        stands = places.find(job_id)
        if stands is None:
            continue
        key, position = stands
        if key[0] not in models:
            models[key[0]] = _lanes(places, heads, key[0], begun)
        lanes, absent = models[key[0]]
        gone = absent[key]
        before = bisect_left(gone, position)
        counts = before == len(gone) or gone[before] != position
        found[job_id] = StartOrder(number=position - before if counts else None, lanes=lanes)
    return found


def _lanes(
    places: PositionIndex, heads: QueueHeads, model: str, begun: Collection[int]
) -> tuple[Mapping[str, int], Mapping[QueueKey, list[int]]]:
    """Return how many jobs of each lane can start, and the positions of those that cannot."""
    absent: dict[QueueKey, list[int]] = {queue.key: [] for queue in places.queues_of(model)}
    away = {job_id for key in absent for job_id in heads.passed(key)}
    for job_id in away.union(begun):
        stands = places.find(job_id)
        if stands is not None and stands[0] in absent:
            absent[stands[0]].append(stands[1])
    for positions in absent.values():
        positions.sort()
    waiting = {queue.key: queue.waiting for queue in places.queues_of(model)}
    return {key[1]: waiting[key] - len(absent[key]) for key in absent}, absent
