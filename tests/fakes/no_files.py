"""Files of jobs for tests that read none."""

from queueing.core.jobs import Job


class NoFiles:
    """Implements `JobFiles`: every job has lost its files."""

    async def inputs(self, job: Job) -> None:
        """Return None."""

    async def output(self, job: Job) -> None:
        """Return None."""
