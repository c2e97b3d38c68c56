"""Promises: the range that each open job's person was first told for its end, and when.

Memory only; the bot keeps what must outlive a restart.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from queueing.core.status import Estimate, Promised


class Promises:
    """Keeps the first range told of each job until it is dropped, once it is followed."""

    def __init__(self) -> None:
        self._given: dict[int, Promised] = {}
        self._followed = False

    def follow(self) -> None:
        """Keep promises from now on; the caller drops those of jobs that have ended."""
        self._followed = True

    @property
    def given(self) -> Mapping[int, Promised]:
        """The promises kept, by job."""
        return MappingProxyType(self._given)

    def tell(self, job_id: int, ends: Estimate, now: float) -> None:
        """Keep what a person is told of a job, if it is the first they are told."""
        if self._followed and job_id not in self._given:
            self._given[job_id] = Promised(given_at=now, earliest=ends.earliest, latest=ends.latest)

    def restore(self, given: Mapping[int, Promised]) -> None:
        """Take up what was told in an earlier run: it was told first."""
        self._given.update(given)

    def drop(self, job_ids: Iterable[int]) -> None:
        """Forget the promises of these jobs."""
        for job_id in job_ids:
            self._given.pop(job_id, None)
