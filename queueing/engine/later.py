"""Later: lets jobs through that run when nothing else waits, and those that must begin in time.

They have a lane of their own, which the planner does not see while others wait for the same hosts.
Reads; moves and ends nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from queueing.core.jobs import Job
from queueing.core.storage import Line
from queueing.core.world import Waiting
from queueing.engine.durations import Times
from queueing.engine.fleet import Fleet

SLACK_S = 60.0
SERVICES = 3.0  # the job itself, and what may be in its way
LOADS = 16.0  # until a gate closes for all jobs of the model that must leave for it


class Later:
    """Knows which later jobs may be shown; `urged` are those that must begin now."""

    def __init__(self, fleet: Fleet, times: Times) -> None:
        self._fleet = fleet
        self._times = times
        self.urged: set[int] = set()
        self._open: set[str] = set()  # models of which all later jobs were shown last

    def shown(
        self, later: Sequence[Line], waiting: Mapping[str, Sequence[Waiting]]
    ) -> Sequence[Line]:
        """Return the lines of later jobs that the planner may see, perhaps with fewer jobs."""
        taken = set[str]()
        for model, lines in waiting.items():
            if any(line.heads for line in lines) and not self._fleet.paused.stops_model(model):
                taken |= self._hosts(model)
        self._open = {each.model for each in later if taken.isdisjoint(self._hosts(each.model))}
        return [each for line in later if (each := self._seen(line)).heads or each is line]

    def _seen(self, line: Line) -> Line:
        if line.model in self._open:
            return line
        heads = tuple(job for job in line.heads if job.id in self.urged)
        return replace(line, waiting=len(heads), heads=heads)

    def is_shown(self, job: Job) -> bool:
        """Return whether the planner sees a later job, so that it may begin."""
        return job.model in self._open or job.id in self.urged

    def start_by(self, job: Job) -> float | None:
        """Return when a job must begin to be done in time, None for one without such a moment."""
        spec = self._fleet.catalog.models.get(job.model)
        if job.due_at is None or spec is None:
            return None
        load_s = self._times.durations.load(spec, "").median_s
        service_s = self._times.service(job, "").median_s
        loads = 1 if self._fleet.copies_of(spec.name) else LOADS
        return job.due_at - loads * load_s - SERVICES * service_s - SLACK_S

    def _hosts(self, model: str) -> frozenset[str]:
        catalog, spec = self._fleet.catalog, self._fleet.catalog.models[model]
        return frozenset(
            host for name in self._fleet.serving(spec) for host in catalog.parts_of(spec, name)
        )
