"""Status: where jobs, models, servers and hosts stand, in people's terms."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from queueing.core.jobs import Job
from queueing.core.standings import QueueSnapshot, Standing


class Standings(Protocol):
    """Answers where jobs stand."""

    async def standings(self, jobs: Sequence[Job]) -> Mapping[int, Standing]:
        """Return where each job stands, by job id; all of one moment. Raises `StoreError`."""


class Decisions(Standings, Protocol):
    """Answers where jobs stand, and tells when that is known."""

    async def decided(self, jobs: Sequence[Job]) -> None:
        """Wait until each of these new jobs is running or waits for a reason, for a moment at most."""


class QueueStatus(Decisions, Protocol):
    """Answers where jobs, models, servers and hosts stand."""

    def snapshot(self) -> QueueSnapshot:
        """Return where models, servers and hosts stand, from memory; never waits."""
