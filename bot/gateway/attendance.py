"""Which jobs have a caller, and which have lost theirs without the whole answer.

A call counts as answered once its response is written to an open connection.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiohttp import web

from queueing.core.jobs import Job

MOST_LOST = 10_000
"""How many lost jobs are remembered; the oldest are forgotten."""


@dataclass(eq=False, slots=True)
class Attended:
    """One call, and the jobs it is about; `answered` once its response is written."""

    jobs: set[int] = field(default_factory=set)
    answered: bool = False


_CALL: web.RequestKey[Attended] = web.RequestKey("call")


def job_of(request: web.Request) -> int | None:
    """Return the job that the call of a request is about, None without exactly one."""
    call = request.get(_CALL)
    return next(iter(call.jobs)) if call is not None and len(call.jobs) == 1 else None


class Attendance:
    """Remembers the calls that are open, and the jobs whose caller left or was told to come back.

    All jobs accepted before `began_at` (UNIX seconds) have lost their callers with the process that
    served them.
    """

    def __init__(self, began_at: float) -> None:
        self._began_at = began_at
        self._calls: set[Attended] = set()
        self._lost: dict[int, None] = {}  # a set that keeps its order
        self._met: set[int] = set()

    @contextmanager
    def call(self, request: web.Request) -> Iterator[Attended]:
        """Provide the call of a request; without an answer, its jobs are lost when it ends."""
        call = Attended()
        request[_CALL] = call
        self._calls.add(call)
        try:
            yield call
        finally:
            self._calls.discard(call)
            if not call.answered:
                self._lose(call.jobs)

    def attend(self, request: web.Request, job: Job) -> None:
        """Note that the call of a request is about a job."""
        self._lost.pop(job.id, None)
        if job.queued_at < self._began_at:
            self._met.add(job.id)
        if (call := request.get(_CALL)) is not None:
            call.jobs.add(job.id)

    def is_attended(self, job: Job) -> bool:
        """Return whether an open call is about a job."""
        return any(job.id in call.jobs for call in self._calls)

    def is_lost(self, job: Job) -> bool:
        """Return whether a job has lost its caller, so that another call may take it over."""
        if self.is_attended(job):
            return False
        earlier = job.queued_at < self._began_at and job.id not in self._met
        return earlier or job.id in self._lost

    def _lose(self, jobs: Collection[int]) -> None:
        self._lost |= dict.fromkeys(jobs)
        while len(self._lost) > MOST_LOST:
            del self._lost[next(iter(self._lost))]
