"""How far the running jobs are, as their servers have reported last."""

from collections.abc import Mapping
from types import MappingProxyType

from queueing.core.events import Event, EventsMissed, JobChanged, Progressed
from queueing.core.jobs import JobState


class RunningFractions:
    """Keeps the newest fraction of each running job; called for every event, so it does little."""

    def __init__(self) -> None:
        self._fractions: dict[int, float] = {}

    @property
    def by_job(self) -> Mapping[int, float]:
        """The fractions by job, of those whose server reports any."""
        return MappingProxyType(self._fractions)

    def on_event(self, event: Event) -> None:
        """Take note of progress, and of a job that no longer runs."""
        if isinstance(event, Progressed):
            if event.progress.fraction is not None:
                self._fractions[event.job_id] = event.progress.fraction
        elif isinstance(event, JobChanged):
            if event.job.state is not JobState.PROCESSING:
                self._fractions.pop(event.job.id, None)
        elif isinstance(event, EventsMissed):
            self._fractions.clear()
