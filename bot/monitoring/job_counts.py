"""Counts jobs and attempts by the queue's events; called for each, so it does little."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from bot.core.origin import origin_in
from bot.monitoring.busy_hosts import BusyHosts
from bot.monitoring.metrics import Instruments
from queueing.core.events import Event, JobChanged, Progressed
from queueing.core.jobs import Job, JobEvent, JobState
from queueing.core.ports import Clock
from queueing.core.status import Promised

_ENDED = {
    JobEvent.COMPLETE: "completed",
    JobEvent.RETRY: "retried",
    JobEvent.RELEASE: "released",
    JobEvent.FAIL: "failed",
    JobEvent.CANCEL: "cancelled",
}


class JobCounts:
    """Counts what happens to the jobs of the queue in this process."""

    def __init__(
        self,
        instruments: Instruments,
        busy: BusyHosts,
        clock: Clock,
        hosts_of: Callable[[Job], Sequence[str]],
        promises: Mapping[int, Promised],
    ) -> None:
        self._instruments = instruments
        self._busy = busy
        self._clock = clock
        self._hosts_of = hosts_of
        self._promises = promises
        self._running: dict[int, Sequence[str]] = {}  # the hosts of each running job
        self._silent: dict[int, Job] = {}  # those that have not said a word yet

    def found(self, jobs: Iterable[Job]) -> None:
        """Take up the jobs that are running already: their start was announced to an earlier run."""
        for job in jobs:
            if job.state is JobState.PROCESSING:
                self._begin(job)

    def on_event(self, event: Event) -> None:
        """Count an event."""
        if isinstance(event, Progressed):
            heard = event.progress
            if event.job_id in self._silent and (heard.text or heard.chunks):
                self._spoken(self._silent.pop(event.job_id))
        elif isinstance(event, JobChanged) and event.event is not None:
            self._changed(event.job, event.event)

    def _changed(self, job: Job, event: JobEvent) -> None:
        if event is JobEvent.START:
            self._begin(job)
            if job.sendings == 1 and job.started_at is not None:
                waited_s = max(0.0, job.started_at - job.queued_at)
                self._instruments.wait(job.model).observe(waited_s)
            return
        self._end(job, event)
        if job.state.final:
            origin = origin_in(job.reply_to) if job.reply_to else None
            asked = "usher" if origin is None else origin.platform
            self._instruments.jobs(job.model, job.state.value, asked).inc()
        if event is JobEvent.COMPLETE and job.started_at is not None:
            took_s = max(0.0, (job.finished_at or self._clock.now()) - job.started_at)
            self._instruments.service(job.model).observe(took_s)
            self._settle(job)

    def _settle(self, job: Job) -> None:
        """Compare the end of a completed job with the first one that was told of it."""
        told, ended_at = self._promises.get(job.id), job.finished_at
        if told is None or ended_at is None:
            return
        self._instruments.estimates_given(job.lane).inc()
        if told.kept(ended_at):
            self._instruments.estimates_kept(job.lane).inc()
        self._instruments.estimate_error(job.lane).observe(told.off_s(ended_at))
        self._instruments.estimate_width(job.lane).observe(told.latest - told.earliest)

    def _begin(self, job: Job) -> None:
        hosts = self._running[job.id] = self._hosts_of(job)
        self._silent[job.id] = job
        for host in hosts:
            self._busy.begin(host)

    def _end(self, job: Job, event: JobEvent) -> None:
        hosts = self._running.pop(job.id, None)
        self._silent.pop(job.id, None)
        if hosts is not None:
            for host in hosts:
                self._busy.end(host)
            self._instruments.attempts(_ENDED[event]).inc()

    def _spoken(self, job: Job) -> None:
        waited_s = max(0.0, self._clock.now() - job.queued_at)
        self._instruments.first_token(job.model).observe(waited_s)
