"""HeadCache: the first startable jobs of every line, read again only if something changed."""

from collections.abc import Sequence
from dataclasses import dataclass

from queueing.core.jobs import Job
from queueing.core.storage import Line
from queueing.store.database import Connection
from queueing.store.jobs import queries
from queueing.store.jobs.position_index import LineKey, PositionIndex
from queueing.store.jobs.rows import job_from

# No job is delayed longer: a later moment was written by a clock that has been set back since.
_LONGEST_DELAY_S = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """A line as it was read at one revision; `line` is None when it had no jobs."""

    revision: int
    per_line: int
    read_at: float
    line: Line | None


class HeadCache:
    """Remembers lines between looks; the router looks after every event, but few lines change."""

    def __init__(self) -> None:
        self._seen: dict[LineKey, _Seen] = {}

    def stale(
        self, places: PositionIndex, now: float, per_line: int
    ) -> list[tuple[LineKey, int, int]]:
        """Return (line, revision, number waiting) of the lines to be read again."""
        return [
            (line.key, line.revision, line.waiting)
            for line in places.lines()
            if (seen := self._seen.get(line.key)) is None
            or seen.revision != line.revision
            or not self._holds(seen, now, per_line)
        ]

    @staticmethod
    def _holds(seen: _Seen, now: float, per_line: int) -> bool:
        return (
            seen.per_line == per_line
            and seen.read_at <= now
            and (seen.line is None or _later(seen.line.next_start_at, now))
        )

    def read(
        self,
        connection: Connection,
        stale: Sequence[tuple[LineKey, int, int]],
        now: float,
        per_line: int,
    ) -> None:
        """Read lines on the reader's connection."""
        for key, revision, waiting in stale:
            seen = self._seen.get(key)
            known = {job.id: job for job in seen.line.heads} if seen and seen.line else {}
            line = _read_line(connection, key, waiting, known, now=now, per_line=per_line)
            self._seen[key] = _Seen(revision=revision, per_line=per_line, read_at=now, line=line)

    def passed(self, key: LineKey) -> Sequence[int]:
        """Return the jobs of a line that others pass, as last read; some may have left it since."""
        seen = self._seen.get(key)
        return () if seen is None or seen.line is None else seen.line.passed

    def lines(self, places: PositionIndex) -> list[Line]:
        """Return the lines as last read."""
        found = (self._seen.get(waiting.key) for waiting in places.lines())
        return [seen.line for seen in found if seen is not None and seen.line is not None]


def _later(moment: float | None, now: float) -> bool:
    return moment is None or moment > now


def _read_line(
    connection: Connection,
    key: LineKey,
    waiting: int,
    known: dict[int, Job],
    *,
    now: float,
    per_line: int,
) -> Line | None:
    """Walk from the front until enough startable jobs are found, past delayed or pausing ones."""
    heads: list[Job] = []
    first_queued_at: float | None = None
    next_start_at: float | None = None
    held = False
    passed: list[int] = []
    for job_id, version, not_before, queued_at, attempt in connection.execute(queries.LINE, key):
        if first_queued_at is None:
            first_queued_at = queued_at
        if now < not_before <= now + _LONGEST_DELAY_S:
            next_start_at = min(not_before, next_start_at or not_before)
            held = held or attempt == 0
            if not heads:
                passed.append(job_id)
            continue
        if len(heads) == per_line:
            break
        job = known.get(job_id)
        if job is None or job.version != version:
            job = job_from(connection.execute(queries.JOB, (job_id,)).fetchone())
        heads.append(job)
    if first_queued_at is None:
        return None
    return Line(
        model=key[0],
        lane=key[1],
        waiting=waiting,
        heads=tuple(heads),
        first_queued_at=first_queued_at,
        next_start_at=next_start_at,
        held=held,
        passed=tuple(passed),
    )
