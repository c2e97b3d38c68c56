"""Status: where jobs, models, servers and hosts stand, in people's terms."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from queueing.core.jobs import Job
from queueing.core.status import QueueSnapshot, Standing


class QueueStatus(Protocol):
    """Answers where jobs, models, servers and hosts stand, and tells when that is known."""

    async def standings(self, jobs: Sequence[Job]) -> Mapping[int, Standing]:
        """Return where each job stands, by job id; all of one moment. Raises `StoreError`."""

    async def decided(self, jobs: Sequence[Job]) -> None:
        """Wait until each of these new jobs is running or waits for a reason, for a moment at most."""

    def snapshot(self) -> QueueSnapshot:
        """Return where models, servers and hosts stand, from memory; never waits."""
