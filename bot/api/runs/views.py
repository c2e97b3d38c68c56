"""Jobs, queues and hosts as the native API shows them, and the place of a waiting job. Pure."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from bot.api.calls import sse
from bot.api.calls.errors import ApiError, _clock, problem_of, reason_sentence
from bot.api.runs.runs import Run
from bot.core.origin import origin_in
from queueing.core.jobs import Job, JobState
from queueing.core.requests import Result
from queueing.core.status import Estimate, ModelStatus, Readiness, Standing, StatusReport


def place_of(run: Run) -> dict[str, JsonValue]:
    """Return a job's place in the queue, with times in UTC. Unknown values are omitted."""
    told: dict[str, JsonValue] = {"job": run.job.id, "state": str(run.job.state)}
    standing = run.standing
    if standing is None or not run.waits:
        return told
    if standing.position is not None:
        told["position"] = standing.position
    if (reason := reason_of(standing)) is not None:
        told["reason"] = reason
    for name, estimate in (("starts_at", standing.starts), ("ends_at", standing.ends)):
        if estimate is not None:
            told[name] = {"earliest": moment(estimate.earliest), "latest": moment(estimate.latest)}
    return told


class WholeStream:
    """Streams an answer that is only sent whole: comments until it is ready.

    Its subclasses implement `bot.api.runs.answers.Writer` with `closing`.
    """

    @property
    def begun(self) -> bool:
        """False: no part of the answer has been sent, so the job may start over."""
        return False

    def news(self, _run: Run) -> bytes:
        """Return nothing."""
        return b""

    def place(self, run: Run) -> bytes:
        """Return a comment with the place in the queue."""
        return sse.comment(place_of(run))

    def keeping(self) -> bytes:
        """Return a comment, because these streams have no empty event."""
        return sse.PING

    def failing(self, error: ApiError) -> bytes:
        """Return an error event in place of the answer. SDKs raise an exception for it."""
        return sse.data(error.body)


def line_of(run: Run) -> str:
    """Describe a job's place in one line of English."""
    place = place_of(run)
    if not run.waits:
        return "Your request is running."
    parts = [f"#{place['position']} in line" if "position" in place else "Waiting"]
    if "reason" in place:
        parts.append(str(place["reason"]))
    if run.standing is not None and (ends := run.standing.ends) is not None:
        parts.append(f"done about {_clock(ends.earliest)} to {_clock(ends.latest)}")
    return " · ".join(parts)


def reason_of(standing: Standing | ModelStatus) -> str | None:
    """Return why a job waits, as one sentence without a final period, with times in UTC."""
    return None if standing.reason is None else reason_sentence(standing.reason)


def moment(at: float) -> str:
    """Format a time as ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


class View(BaseModel):
    """Base class of all responses."""

    model_config = ConfigDict(frozen=True)


class FileView(View):
    """A file of a job's result. `url` is its path in this API. Later jobs refer to it by `id`."""

    id: str
    number: int
    name: str
    mime: str
    size: int
    url: str


class ErrorView(View):
    """Why a job failed. `message` is for people, `code` for programs."""

    message: str
    code: str | None = None


class ErrorObject(View):
    """An error in OpenAI's format. `param` is the invalid field, and `code` is for programs."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(View):
    """The body of every error response."""

    error: ErrorObject


class RangeView(View):
    """A range in which something happens with a probability of about 80 percent."""

    earliest: str
    latest: str


class JobView(View):
    """A job and its progress.

    `position` is 1 for the job that starts next. `progress` is a share from 0 to 1. `text`,
    `files`, `answer` and `error` are set once the job has ended. `answer` contains what the server
    reported in addition to the text: tool calls, the finish reason and token counts. `unused` names
    the parameters in the prompt that have no effect on the model.
    """

    object: Literal["job"] = "job"
    id: int
    model: str
    state: JobState
    created_at: str
    started_at: str | None = None
    finished_at: str | None = None
    position: int | None = None
    reason: str | None = None
    unused: tuple[str, ...] = ()
    starts_at: RangeView | None = None
    ends_at: RangeView | None = None
    progress: float | None = None
    text: str | None = None
    files: tuple[FileView, ...] = ()
    answer: dict[str, JsonValue] | None = None
    error: ErrorView | None = None


class JobList(View):
    """Jobs, newest first."""

    object: Literal["list"] = "list"
    data: tuple[JobView, ...]


class ModelQueueView(View):
    """A model's queue: its jobs, why they wait, and when a job accepted now would be done."""

    model: str
    waiting: int
    running: int
    reason: str | None = None
    next_ends_at: RangeView | None = None
    paused: bool
    usually_s: float | None = None
    resident_on: tuple[str, ...]
    state: Readiness


class QueueView(View):
    """All queues."""

    object: Literal["queue"] = "queue"
    queues: tuple[ModelQueueView, ...]


class ServerView(View):
    """A server of a host. `since` is when it went up or down. `description` is its own report."""

    name: str
    kind: str
    up: bool
    since: str
    description: str


class HostStatusView(View):
    """A host and its memory. `rest` is why it takes no jobs at present, apart from a pause.

    `unmeasured_since` is set while the memory used by other programs cannot be measured, although
    it was measured before.
    """

    name: str
    vram_mb: int
    usable_mb: int
    used_mb: int
    paused: bool
    rest: str | None = None
    unmeasured_since: str | None = None
    servers: tuple[ServerView, ...]


class HostList(View):
    """All hosts."""

    object: Literal["list"] = "list"
    data: tuple[HostStatusView, ...]


def job_view(
    job: Job,
    *,
    standing: Standing | None = None,
    progress: float | None = None,
    result: Result | None = None,
) -> JobView:
    """Build the view of a job. `result` is its output, if known."""
    waits = standing is not None and job.state is JobState.PENDING
    origin = origin_in(job.reply_to)
    return JobView(
        id=job.id,
        model=job.model,
        state=job.state,
        created_at=moment(job.queued_at),
        started_at=_moment(job.started_at),
        finished_at=_moment(job.finished_at),
        position=standing.position if standing is not None and waits else None,
        reason=reason_of(standing) if standing is not None and waits else None,
        unused=origin.unused if origin is not None else (),
        starts_at=_range(standing.starts) if standing is not None and waits else None,
        ends_at=_range(standing.ends) if standing is not None else None,
        progress=progress,
        text=result.text or None if result is not None else None,
        files=files_of(job, result) if result is not None else (),
        answer=json.loads(result.answer) if result is not None and result.answer else None,
        error=_error(job),
    )


def files_of(job: Job, result: Result) -> tuple[FileView, ...]:
    """Build the views of a result's files, numbered from 1."""
    return tuple(
        FileView(
            id=f"job-{job.id}/{number}",
            number=number,
            name=file.name,
            mime=file.mime,
            size=file.size,
            url=f"/v1/jobs/{job.id}/files/{number}",
        )
        for number, file in enumerate(result.files, start=1)
    )


def queue_view(report: StatusReport) -> QueueView:
    """Build the view of all queues of a report."""
    return QueueView(
        queues=tuple(
            ModelQueueView(
                model=model.name,
                waiting=model.waiting,
                running=model.running,
                reason=reason_of(model),
                next_ends_at=_range(model.next_ends),
                paused=model.paused,
                usually_s=None if model.service_s is None else round(model.service_s, 1),
                resident_on=tuple(copy.host for copy in model.copies),
                state=model.readiness,
            )
            for model in report.models
        )
    )


def host_list(snapshot: StatusReport) -> HostList:
    """Build the view of all hosts with their servers. Omits addresses."""
    return HostList(
        data=tuple(
            HostStatusView(
                name=host.name,
                vram_mb=host.vram_mb,
                usable_mb=host.usable_mb,
                used_mb=host.used_mb,
                paused=host.paused,
                rest=None if host.rest is None else reason_sentence(host.rest),
                unmeasured_since=_moment(host.unmeasured_since),
                servers=_servers(snapshot, host.name),
            )
            for host in snapshot.hosts
        )
    )


def _servers(snapshot: StatusReport, host: str) -> tuple[ServerView, ...]:
    return tuple(
        ServerView(
            name=server.name,
            kind=server.kind,
            up=server.up,
            since=moment(server.since),
            description=server.description,
        )
        for server in snapshot.backends
        if server.is_on(host)
    )


def _error(job: Job) -> ErrorView | None:
    if job.state is not JobState.FAILED:
        return None
    error: ApiError = problem_of(job)
    return ErrorView(message=error.message, code=error.code)


def _range(estimate: Estimate | None) -> RangeView | None:
    if estimate is None:
        return None
    return RangeView(earliest=moment(estimate.earliest), latest=moment(estimate.latest))


def _moment(at: float | None) -> str | None:
    return None if at is None else moment(at)


def newest_first(jobs: Sequence[Job]) -> list[Job]:
    """Sort jobs, newest first."""
    return sorted(jobs, key=lambda job: job.id, reverse=True)
