"""Time on the cards: what each person's jobs took, counted with their ends.

Rows are sums of a quarter of an hour: few, and the days of every time zone consist of them.
"""

from collections.abc import Iterable

from queueing.core.errors import LimitReached
from queueing.core.jobs import Admission
from queueing.store.jobs import queries
from queueing.store.sql.database import Connection

QUARTER_S = 900.0
KEPT_S = 2 * 86_400.0  # a day of any time zone, and the one before it
_PRUNE_EVERY_S = 3600.0


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

    def refusal(self, connection: Connection, owner: str, limits: Admission) -> LimitReached | None:
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
        if self._pruned_at is None or abs(now - self._pruned_at) >= _PRUNE_EVERY_S:
            connection.execute(queries.PRUNE_GPU_USE, (now - KEPT_S,))
            self._pruned_at = now
